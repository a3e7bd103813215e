#!/usr/bin/env bash
# Installs what the system tests need on Debian 12, as root. Does nothing when all is there.
set -euo pipefail

packages=(
  ca-certificates git gnupg openssh-client perl python3-minimal # what a user has
  docker.io containerd runc podman conmon                       # engines
  mmdebstrap debian-archive-keyring                             # images for them
  openssh-server socat                                          # ssh targets, and what the bridge is measured beside
  expect tmux                                                   # a terminal
  bash-completion zsh fish csh tcsh                             # shells that people use
  iproute2 openssl procps                                       # a cluster's network, keys and settings
  chromium g++ make python3                                     # VS Code: its browser, its native modules
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "system-packages: run as root to install: ${missing[*]}" >&2
  exit 1
fi

# Debian starts the daemons that it installs (docker, sshd). The tests start their own, and these would stay.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --no-install-recommends "${missing[@]}"
