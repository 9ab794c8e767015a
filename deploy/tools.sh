#!/usr/bin/env bash
# What `make test-deploy` needs beside Python: nginx, bubblewrap, kubectl, from Debian's packages.
set -euo pipefail

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo

missing() { ! PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }

packages=()
if missing nginx; then packages+=(nginx-light); fi
if missing bwrap; then packages+=(bubblewrap); fi
if missing kubectl; then
	# Debian's own kubernetes-client has a kustomize of 2019; distributions with a newer one call it kubectl
	if apt-cache show kubectl >/dev/null 2>&1; then packages+=(kubectl); else packages+=(kubernetes-client); fi
fi
[ "${#packages[@]}" -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
	echo "cannot install ${packages[*]} here: install them by hand" >&2
	exit 1
fi
echo "installing ${packages[*]}"
$sudo apt-get update -qq
if [ ! -e /usr/sbin/policy-rc.d ]; then # the package shall start no server: tests start theirs, on free ports
	printf '#!/bin/sh\nexit 101\n' | $sudo tee /usr/sbin/policy-rc.d >/dev/null
	$sudo chmod +x /usr/sbin/policy-rc.d
	trap '$sudo rm -f /usr/sbin/policy-rc.d' EXIT
fi
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
