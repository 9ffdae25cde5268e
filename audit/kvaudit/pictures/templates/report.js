// Goes through the steps of each picture. Without it every step is shown, one below the other.
"use strict";

const films = [...document.querySelectorAll(".film")].map((film) => {
  const last = Number(film.dataset.steps);
  const step = (element) => Number(element.dataset.step);
  const show = (wanted) => {
    const now = Math.min(Math.max(wanted, 1), last);
    film.dataset.now = now;
    film.querySelectorAll("article").forEach((article) => (article.hidden = step(article) !== now));
    film.querySelectorAll(".pool [data-step]").forEach((cell) => cell.classList.toggle("now", step(cell) === now));
    film.querySelectorAll("thead button").forEach((button) => {
      const here = step(button.parentElement) === now;
      here ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current");
      if (here) button.parentElement.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    film.querySelector(".where").textContent = `step ${now} of ${last}`;
    film.querySelector(".previous").disabled = now === 1;
    film.querySelector(".next").disabled = now === last;
  };
  film.classList.add("plays");
  film.querySelectorAll(".pool thead [data-step]").forEach((head) => head.addEventListener("click", () => show(step(head))));
  film.querySelector(".previous").addEventListener("click", () => show(Number(film.dataset.now) - 1));
  film.querySelector(".next").addEventListener("click", () => show(Number(film.dataset.now) + 1));
  return { film, last, show };
});

// The keys move the picture that was touched last; at first, the topmost one.
let active = films[0];
films.forEach((each) => {
  const take = () => (active = each);
  each.film.addEventListener("pointerdown", take);
  each.film.addEventListener("focusin", take);
  each.show(each.last);
});
if (active) window.scrollTo(0, 0);

document.addEventListener("keydown", (event) => {
  if (!active || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const now = Number(active.film.dataset.now);
  const wanted = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 1, End: active.last }[event.key];
  if (wanted === undefined) return;
  event.preventDefault();
  active.show(wanted);
});
