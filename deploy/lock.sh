#!/usr/bin/env bash
# Writes the gate image's pinned requirements anew: pip install uv, then deploy/lock.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

lock() { # $1: file to write; the rest: extras
	local file=$1
	shift
	uv pip compile --quiet --upgrade --generate-hashes --no-annotate \
		--python-version 3.11 --python-platform x86_64-manylinux_2_28 \
		--custom-compile-command deploy/lock.sh --overrides deploy/requirements-overrides.txt \
		"$@" --output-file "$file" pyproject.toml deploy/requirements.in
}

lock deploy/requirements.txt
lock deploy/requirements-eval.txt --extra eval
