#!/usr/bin/env bash
# Everything that must hold, in one command. It needs git and Python >= 3.11, and makes its own .venv.
#   ./check.sh                  run every part but bench, then print a table
#   ./check.sh NAME [ARGS...]   run one part: `test` and `p06` hand ARGS to pytest, `audit` to kvaudit
#   ./check.sh --list           the parts, one a line
# PYTHON=/path/to/python chooses the interpreter; NO_COLOR=1 turns colours off.

CDPATH='' cd -- "$(dirname -- "$0")" || exit 2
ROOT=$PWD
# What the tests audit. The first row is brought at every run; the second needs torch; the third is 3 GB of wheels.
ENGINE=vllm==0.33.0
ENGINES="$ENGINE vllm-mlx==0.6.0"
TORCH_ENGINES="sglang==0.5.23 transformers==5.24.0 transformers==5.5.0 lmdeploy==0.18.0 exllamav3==1.6.5"
OLDER_ENGINES="vllm==0.28.0 vllm==0.23.0 vllm==0.18.1 vllm==0.14.1 vllm==0.11.2 vllm==0.10.2 vllm==0.9.2 vllm==0.8.5"
OTHER_Z3=z3-solver==4.15.4
BUG=tests/mutants/pool.py:KeepsMappingOnEviction
unset PYTHONPATH PYTHONHOME

parts() {
    cat <<'END'
lint    ruff check, ruff format --check, and the contracts on who may import whom
types   mypy (strict) and pyright (standard)
fetch   bring engines that the tests audit: vLLM 0.33.0 and vllm-mlx; with torch there five more; --all: all, and torch
test    every test; those of an engine are skipped where it was not fetched
p06     the seed's examples, line by line
explore search every operation sequence of kvblocks on pools of up to 4 blocks; with --deep on (4,3) and (5,1) too
proofs  prove kvblocks for every size, and CrossHair's contracts; --deep: are the proofs vacuous, --stability: do they depend on Z3
audit   audit kvblocks and vLLM, or `audit TARGET [OPTIONS]`
matrix  what supports each obligation of kvblocks: runs what has not run yet of explore, proofs and audit
bench   kvblocks beside vLLM, SGLang and nano-vllm, or `bench PART... [OPTIONS]`; `bench --checks` what checking costs; see docs/performance.md
mypyc   kvblocks compiled by mypyc: the tests that need no class of their own, and an audit. Skipped without a C compiler
wheel   sdist, the wheel built from it, and that wheel in two fresh environments
demo    kvblocks conforms, a planted bug is caught, vLLM is audited
END
}

part_lint() {
    step "ruff check" ruff check .
    step "ruff format" ruff format --check .
    step "lint-imports" lint-imports
}

part_types() {
    step mypy mypy
    step pyright pyright --pythonpath .venv/bin/python
}

# An engine that cannot be had is no failure: it is said, and the tests of what is missing are skipped.
part_fetch() {
    local engines=$ENGINES engine got=0
    case ${1:-} in
        --all)
            # The wheels of torch on the package index bring several GB for GPUs.
            export PIP_EXTRA_INDEX_URL=${PIP_EXTRA_INDEX_URL-https://download.pytorch.org/whl/cpu}
            engines="$ENGINES $TORCH_ENGINES $OLDER_ENGINES"
            ;;
        *) if has_torch; then engines="$ENGINES $TORCH_ENGINES"; fi ;;
    esac
    for engine in $engines; do
        step -e "0 4" '' kvaudit fetch "$engine" || return
        if [ "$status" = 4 ]; then
            # The next would most likely fail for the same reason, after the same wait.
            echo "fetched: $got engines; $engine could not be had, and no other was tried" >>"$work/good"
            return
        fi
        got=$((got + 1))
    done
    echo "fetched: $got engines" >>"$work/good"
}

has_torch() {
    python -c 'import importlib.util, sys
from kvaudit.engines.fetch import packages
sys.exit(importlib.util.find_spec("torch") is None and not (packages() / "torch").is_dir())'
}

# The whole suite on all processors, of which one that is done takes tests from the others: some take a minute.
# With ARGS as pytest has it, for --pdb and the like.
part_test() {
    if [ $# = 0 ]; then set -- -n auto --dist worksteal; fi
    step pytest pytest "$@"
}

part_p06() { step pytest pytest tests/blocks/test_p06.py -v "$@"; }

part_proofs() {
    case ${1:-} in
        --stability)
            step '' python -m venv "$work/z3" && step '' "$work/z3/bin/pip" install -q --disable-pip-version-check "$OTHER_Z3" &&
                step stability python -m kvproofs --stability --python "$work/z3/bin/python"
            ;;
        --deep)
            for name in agreeing witnesses dropping; do step "$name" env PYTHONPATH=tests python -m "proofs.$name"; done
            ;;
        *)
            step kvproofs python -m kvproofs --json "$evidence/proof.json"
            step CrossHair python -m kvproofs.crosshair --json "$evidence/crosshair.json"
            ;;
    esac
}

part_audit() {
    case ${1:-} in
        '' | -*)
            step kvblocks kvaudit run kvblocks --max-steps 20000 --misuse --json "$evidence/fuzz.json" "$@"
            audit_engine --max-steps 20000 "$@"
            ;;
        *) step "$1" kvaudit run "$@" ;;
    esac
}

part_explore() {
    local jobs
    jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
    search() { kvaudit explore kvblocks --misuse -j "$jobs" "$@"; }
    step "blocks <= 4, size <= 2" search --blocks 4 --block-size 2 --smaller --json "$evidence/exhaustive.json"
    step "2 blocks, size 3" search --blocks 2 --block-size 3 # an append inside a block, neither first nor last
    if [ "${1:-}" = --deep ]; then
        step "4 blocks, size 3" search --blocks 4 --block-size 3
        step "5 blocks, size 1" search --blocks 5 --block-size 1
    fi
    step -e 1 "planted bug" kvaudit explore "$BUG" --blocks 2 --block-size 1
}

part_matrix() {
    [ -s "$evidence/exhaustive.json" ] || part_explore
    [ -s "$evidence/crosshair.json" ] || part_proofs
    [ -s "$evidence/fuzz.json" ] || part_audit
    # The mutation campaign takes more than an hour: what counts here are the results of the last one.
    step '' env PYTHONPATH=tests python -m mutation.evidence "$evidence/mutants.json"
    step matrix kvaudit matrix "$evidence"/*.json --json "$ROOT/.kvaudit/assurance.json"
}

# Side by side; an engine that cannot be fetched does not take part, and is named.
part_bench() {
    case " $* " in
    *" --checks "*) ;; # of kvblocks and the planted bugs alone
    *)
        for engine in "$ENGINE" vllm==0.11.2 sglang==0.5.23; do kvaudit fetch "$engine"; done
        if has_compiler && compile_kvblocks; then set -- --compiled "$compiled" "$@"; fi
        ;;
    esac
    step bench python -m bench "$@"
}

part_wheel() {
    local built full=$work/full bare=$work/bare
    step '' python -m build --outdir "$work/dist" . || return
    step contents python - "$work"/dist/*.tar.gz "$work"/dist/*.whl <<'END'
import pathlib, sys, tarfile, zipfile

sdist = {name.partition("/")[2] for name in tarfile.open(sys.argv[1]).getnames()}
wheel = set(zipfile.ZipFile(sys.argv[2]).namelist())
sources = [path for room in ("spec/kvspec", "impl/kvblocks", "audit/kvaudit", "proofs/kvproofs") for path in pathlib.Path(room).rglob("*")
           if path.is_file() and path.parent.name != "__pycache__" and not path.name.startswith(".")]
sources += [pathlib.Path("audit/_kvaudit_pytest.py")]
house = [pathlib.Path(name) for name in ("pyproject.toml", "hatch_build.py", "action.yml", "check.sh", "README.md", "CHANGELOG.md", "LICENSE")]
tests = [path for room in ("tests", "docs") for path in pathlib.Path(room).rglob("*") if path.suffix in (".py", ".md")]
missing = [f"{path} is not in the sdist" for path in sources + house + tests if path.as_posix() not in sdist]
missing += [f"{path} is not in the wheel" for path in sources if path.as_posix().partition("/")[2] not in wheel]
tops = {name.partition("/")[0] for name in wheel}
missing += [f"{top} does not belong in the wheel" for top in tops - {"kvspec", "kvblocks", "kvaudit", "_kvaudit_pytest.py", "kvproofs"} if not top.endswith(".dist-info")]
print("\n".join(missing) or f"{len(sdist)} files in the sdist, {len(wheel)} in the wheel, none missing")
sys.exit(bool(missing))
END
    built=$(echo "$work"/dist/*.whl)
    step '' python -m venv "$full" && step '' "$full/bin/pip" install -q --disable-pip-version-check "$built" &&
        (cd "$work" && step "installed" "$full/bin/kvaudit" run kvblocks --max-steps 500)
    step '' python -m venv "$bare" && step '' "$bare/bin/pip" install -q --disable-pip-version-check --no-deps "$built" &&
        (cd "$work" && step "without dependencies" "$bare/bin/python" -I - <<'END'
import kvblocks, kvspec

table = kvblocks.BlockManager(6, 4).allocate("x", [11, 12, 13, 14, 15, 16])
assert table == [0, 1], table
print(f"{kvspec.__name__} and {kvblocks.__name__} work: allocate gives {table}")
END
        )
}

part_mypyc() {
    if ! has_compiler; then
        say "There is no C compiler ($cc), so kvblocks was not compiled."
        echo "not compiled, there is no C compiler ($cc)" >>"$work/good"
        return
    fi
    compile_kvblocks || return
    in_compiled() { env PYTHONPATH="$compiled" "$@"; }
    step "compiled" in_compiled python -c 'import kvblocks.manager as m; print(m.__file__.rpartition("/")[2]); assert not m.__file__.endswith(".py")'
    step "tests" in_compiled pytest -q tests/blocks --ignore tests/blocks/test_mutants_are_real.py
    step "audit" in_compiled kvaudit run kvblocks --max-steps 20000 --misuse
}

has_compiler() {
    cc=${CC:-cc}
    command -v "${cc%% *}" >/dev/null
}

# The wheel of kvblocks as mypyc makes it, unpacked into $compiled.
compile_kvblocks() {
    compiled=$work/compiled
    step '' env KVBLOCKS_COMPILE=1 python -m build --wheel --outdir "$work/compiled-dist" . &&
        step '' python -m zipfile -e "$work"/compiled-dist/*.whl "$compiled"
}

part_demo() {
    say "kvblocks, the manager in this repository, conforms:"
    step kvblocks kvaudit run kvblocks --max-steps 2000
    say "The same manager with one planted bug is caught (exit status 1 is what we want here):"
    step -e 1 "planted bug" kvaudit run "$BUG" --black-box --max-steps 2000
    say "A real engine, from its published wheel:"
    audit_engine --max-steps 2000
}

# audit_engine OPTIONS...: fetch the engine and audit it. No network is no failure; it is said, and shown in the table.
audit_engine() {
    step -e "0 4" '' kvaudit fetch "$ENGINE" || return
    if [ "$status" = 4 ]; then
        say "$ENGINE could not be fetched (no network?), so it was not audited."
        echo "$ENGINE: not audited, it could not be fetched" >>"$work/good"
    else
        step "$ENGINE" kvaudit run "$ENGINE" "$@"
    fi
}

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# step [-e "STATUS..."] LABEL COMMAND...: run it, show its output as it comes, and keep its last line for the table
# (with an empty LABEL only if it failed). It went well if its exit status is one of those given, by default 0.
step() {
    local wanted=0 label found
    if [ "$1" = -e ]; then wanted=$2 && shift 2; fi
    label=$1 && shift
    say "\$ $*"
    "$@" 2>&1 | tee "$work/out"
    status=${PIPESTATUS[0]}
    found=$(sed $'s/\033\\[[0-9;?]*[a-zA-Z]//g' "$work/out" | tr -d '\r' | grep -a '[[:alnum:]]' | tail -n 1 |
        sed 's/^[=[:space:]]*//; s/[=[:space:]]*$//')
    case " $wanted " in
        *" $status "*)
            if [ -n "$label" ]; then echo "$label: $found" >>"$work/good"; fi
            ;;
        *)
            say "exit status $status, but wanted ${wanted// / or }"
            echo "${label:-$1}: $found (exit status $status)" >>"$work/bad"
            return 1
            ;;
    esac
}

# run_part NAME ARGS...: sets result, found (one line a step; the failed steps only, if any failed) and seconds.
run_part() {
    local name=$1 start=$SECONDS
    shift
    : >"$work/good" && : >"$work/bad"
    printf '\n%s======== %s ========%s\n' "$bold" "$name" "$plain"
    "part_$name" "$@"
    seconds=$((SECONDS - start))
    if [ -s "$work/bad" ]; then
        result=FAILED found=$(cat "$work/bad")
        return 1
    fi
    result=passed found=$(cat "$work/good")
    if [ -z "$found" ]; then
        result=FAILED found="nothing was checked"
        return 1
    fi
}

run_all() {
    local passed=0 failed=0 name
    for name in $names; do
        if [ "$name" = bench ]; then continue; fi # figures, and nothing that must hold
        if run_part "$name"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
        rows "$name" >>"$work/table"
    done
    printf '\n%s%-7s %-7s %7s  %s%s\n' "$bold" part result seconds found "$plain"
    cat "$work/table"
    printf '\nchecks: %d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
}

# rows NAME: the part that just ran, as one row of the table for each line of what it found.
rows() {
    local name=$1 line colour=''
    if [ "$result" = FAILED ]; then colour=$red; fi
    echo "$found" | while IFS= read -r line; do
        printf '%-7s %s%-7s%s %7s  %s\n' "$name" "$colour" "$result" "$plain" "$seconds" "$line"
        name='' result='' seconds=''
    done
}

die() {
    echo "check.sh: $*" >&2
    exit 2
}

usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# The first line of .venv/stamp says what .venv was made for, the second which pyproject.toml is installed in it.
made_for() { echo "$ROOT with Python $("$1" -c 'import platform; print(platform.python_version())')"; }

set_up() {
    local stamp=.venv/stamp python=.venv/bin/python project candidate
    # A .venv that was made here by other means is used as it is.
    if [ -z "$PYTHON" ] && [ ! -e $stamp ] && usable $python; then made_for $python >$stamp; fi
    if [ -n "$PYTHON" ] || ! usable $python || [ "$(sed -n 1p $stamp 2>/dev/null)" != "$(made_for $python)" ]; then
        python=
        if [ -n "$PYTHON" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11; fi
        for candidate in "$@"; do
            # Not the python of an activated .venv, which may be removed below, but the one that it was made from.
            if usable "$candidate"; then python=$("$candidate" -c 'import sys; print(sys._base_executable)') && break; fi
        done
        [ -n "$python" ] || die "needs Python >= 3.11 with the modules venv and ensurepip (package python3-venv on Debian and Ubuntu)." \
            "$1 is: $("$1" --version 2>&1 | head -n 1). Set PYTHON=/path/to/python to choose another."
        if ! usable .venv/bin/python || [ "$(sed -n 1p $stamp 2>/dev/null)" != "$(made_for "$python")" ]; then
            echo "making .venv with $("$python" --version)"
            rm -rf .venv
            "$python" -m venv .venv || die "could not make .venv"
            made_for "$python" >$stamp
        fi
    fi
    project=$(.venv/bin/python -c 'import hashlib; print(hashlib.sha256(open("pyproject.toml", "rb").read()).hexdigest())')
    if [ "$(sed -n 2p $stamp)" != "$project" ]; then
        echo "installing kvaudit and its tools into .venv"
        .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]' ||
            die "could not install into .venv; the reason is above (is there a network?)"
        printf '%s\n%s\n' "$(sed -n 1p $stamp)" "$project" >$stamp.new && mv $stamp.new $stamp
    fi
    export PATH="$ROOT/.venv/bin:$PATH"
}

names=$(parts | sed 's/ .*//' | tr '\n' ' ')
case ${1:-} in
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" && exit ;;
    --list) parts && exit ;;
    '') ;;
    -*) die "unknown option $1; see ./check.sh -h" ;;
    *)
        case " $names " in *" $1 "*) ;; *) die "there is no part '$1'; the parts are: ${names% }" ;; esac
        case $1 in lint | types | matrix | wheel | demo) [ $# = 1 ] || die "$1 takes no arguments" ;; esac
        case $* in explore | 'explore --deep' | [!e]*) ;; *) die "explore takes --deep or nothing" ;; esac
        case $* in fetch | 'fetch --all' | [!f]*) ;; *) die "fetch takes --all or nothing" ;; esac
        case $* in proofs | 'proofs --deep' | 'proofs --stability' | [!p]* | p06*) ;; *) die "proofs takes --deep, --stability or nothing" ;; esac
        ;;
esac

bold='' red='' plain=''
if [ -t 1 ] && [ -z "$NO_COLOR" ]; then
    bold=$'\033[1m' red=$'\033[31m' plain=$'\033[0m'
    export FORCE_COLOR=1
fi
export PYRIGHT_PYTHON_GLOBAL_NODE=off PYRIGHT_PYTHON_IGNORE_WARNINGS=1

work=$(mktemp -d "${TMPDIR:-/tmp}/kvaudit-check.XXXXXX") || exit 2
evidence=$work/evidence
mkdir -p "$evidence" .kvaudit
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
set_up
if [ $# = 0 ]; then
    run_all
else
    if run_part "$@"; then code=0; else code=1; fi
    printf '\n%s%-7s %-7s %7s  %s%s\n' "$bold" part result seconds found "$plain"
    rows "$1"
    exit $code
fi
