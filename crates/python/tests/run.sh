#!/usr/bin/env bash
# Tests the Python module that cargo has built, against the command that cargo has built, and executes the notebooks.
#
#   crates/python/tests/run.sh [FOLDER]
#
# FOLDER has `entresol` and `lib_entresol.so` [default: target/release]. Needs Python from 3.11 with numpy, and pyarrow and
# pandas for all tests: those of the system, else of an environment of its own, which is kept in the user's cache
# folder. Without them it says why and passes.
set -euo pipefail
cd "$(dirname "$0")/../../.."
built=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release}")

skip() {
  echo "skipped: $*"
  exit 0
}
python=$(command -v python3) || skip "there is no Python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$("$python" --version) is older than 3.11"
if ! "$python" -c 'import numpy, pandas, pyarrow' 2>/dev/null; then
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/entresol/python-$version
  if ! "$folder/bin/python" -c 'import numpy, pandas, pyarrow' 2>/dev/null; then
    rm -rf "$folder"
    { "$python" -m venv "$folder" && timeout 120 "$folder/bin/pip" install -q numpy pandas pyarrow; } >/dev/null 2>&1 \
      || skip "numpy, pandas and pyarrow cannot be installed"
  fi
  python=$folder/bin/python
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r crates/python/entresol "$work/entresol"
cp "$built/lib_entresol.so" "$work/entresol/_entresol.abi3.so"
ENTRESOL=$built/entresol PYTHONPATH=$work PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest discover crates/python/tests
