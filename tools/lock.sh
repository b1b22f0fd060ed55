#!/bin/sh
# Writes requirements-dev.lock: installs what setup.py and requirements-dev.txt ask for into a fresh environment and freezes it.
set -eu
python=$(sh tools/prerequisites.sh "${1:-}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check install -r requirements-dev.txt numpy
"$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check install --no-build-isolation --editable . -r requirements-dev.txt
{
    echo "# Every package of the development environment with its exact version; written by \`make lock\`, installed by \`make build\`."
    "$folder/venv/bin/python" -m pip --disable-pip-version-check list --format=freeze --exclude pip --exclude penstock --exclude-editable
} >"$folder/lock"
mv "$folder/lock" requirements-dev.lock
