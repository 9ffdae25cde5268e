"""An adapter in a file of its own, as docs/adapters.md has it: the page's engine and the page's adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.auditing import kvaudit
from house.test_docs import blocks_of
from kvaudit.errors import UsageError
from kvaudit.profiles import PROFILES, adopt, brought

ENGINE, ADAPTER = blocks_of("adapters.md", "python")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, ENGINE, ADAPTER)
    return tmp_path


def write(folder: Path, engine: str, adapter: str) -> None:
    file = folder / "src" / "acme" / "server" / "pages.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(engine, encoding="utf-8")
    (folder / "acme.py").write_text(adapter, encoding="utf-8")


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


RUN = ("run", "acme.py", "--source", "src", "--max-steps", "6000")


def test_it_conforms(folder: Path) -> None:
    said = kvaudit(*RUN, cwd=folder)
    assert said.code == 0, said.out
    assert "acme (free and cached pages wait in one queue)" in said.out
    assert "conforms (18 of 21 obligations hold, 3 not observable" in said.out
    assert "stubbed    acme (3 modules)" in said.out
    assert len(ADAPTER.splitlines()) < 150


def test_an_engine_that_has_blocks_of_one_token_only(folder: Path) -> None:
    beyond = """beyond={"partial block": "blocks have one token", "equal prompts": "blocks have one token", """
    ones = changed(ADAPTER, "limits=Limits(", "limits=Limits(most_block_size=1, ")
    write(folder, ENGINE, changed(ones, "beyond={", beyond))
    said = kvaudit(*RUN, cwd=folder)
    assert said.code == 0, said.out


def test_a_bug_in_the_engine_is_found_and_replayed(folder: Path) -> None:
    stale = changed(ENGINE, "                del self.page_of[key]\n", "                pass\n")
    write(folder, stale, ADAPTER)
    said = kvaudit(*RUN, cwd=folder)
    assert said.code == 1, said.out
    (trace,) = (folder / ".kvaudit" / "failures").glob("*/trace.jsonl")
    assert kvaudit("replay", str(trace), "--source", "src", cwd=folder).code == 1
    write(folder, ENGINE, ADAPTER)
    assert kvaudit("replay", str(trace), "--source", "src", cwd=folder).code == 0


def test_a_check_that_the_adapter_leaves_out_is_found(folder: Path) -> None:
    start, end = ADAPTER.index("        needed ="), ADAPTER.index("        self.live[seq_id] = [tokens, pages")
    careless = """
        pool.share(hits)
        new = pool.take(-(-len(tokens) // pool.page_tokens) - len(hits))
        if new is None:
            pool.release(hits)
            raise OutOfBlocks
        pages = hits + new
"""
    write(folder, ENGINE, ADAPTER[:start] + careless + ADAPTER[end:])
    said = kvaudit(*RUN, cwd=folder)
    assert said.code == 1 and "O1 is violated" in said.out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"acme.server.pages", "PagePool"', '"acme.server.pages", "Pool"', "acme.server.pages has no Pool"),
        ('("acme/server/pages.py",)', '("acme/server/page.py",)', "acme.server.pages is not in src"),
        ("pool.share(hits)", "pool.hold(hits)", "adapter and acme do not fit"),
        ('take_from="one queue"', 'take_from="a queue"', "brings a profile of its own: it makes no sense"),
        ('    "acme",\n    "free', '    "vllm",\n    "free', "a profile 'vllm', and there is another of that name"),
        ('beyond={"cache off"', 'beyond={"cache of"', "leaves out cache of: there is no such reach goal"),
        ("limits=Limits(", "limits=type('Mine', (Limits,), {})(", "is to be a Profile with Limits, and no subclass"),
        ("def load(root)", "def loads(root)", "acme.py is no adapter: it is to define RECIPE and load(root)"),
        (
            'RECIPE = Recipe(\n    package="acme",',
            'RECIPE = dict(\n    package="acme",',
            "RECIPE is to be a kvaudit.engines",
        ),
        (
            '    return Engine("acme"',
            '    Engine("acme"',
            "load() is to return a kvaudit.engines.lite.Engine, not None",
        ),
        ("import Limits\n", "import Limits, Nothing\n", "acme.py could not be imported"),
    ],
)
def test_what_does_not_fit_is_told(folder: Path, old: str, new: str, told: str) -> None:
    write(folder, ENGINE, changed(ADAPTER, old, new))
    said = kvaudit(*RUN, cwd=folder)
    assert said.code == 2, said.out
    assert told in " ".join(said.err.split())


def test_what_is_no_folder_of_the_engine_is_told(folder: Path) -> None:
    said = kvaudit("run", "acme.py", "--source", "acme.py", cwd=folder)
    assert said.code == 2 and "there is no folder acme.py" in said.err
    said = kvaudit("run", "acme.py", "--source", "src", "--set", "policy=lru", cwd=folder)
    assert said.code == 2 and "it has no setting 'policy'" in said.err
    said = kvaudit("run", "acme.py", cwd=folder)
    assert said.code == 2 and "acme is not installed" in said.err


def test_a_profile_that_is_brought() -> None:
    with pytest.raises(UsageError, match="variants has no fre"):
        brought({"name": "mine", "summary": "", "variants": {"fre": 1}})
    assert adopt(PROFILES["seed"]) == "seed"
