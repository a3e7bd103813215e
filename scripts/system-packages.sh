#!/usr/bin/env bash
# Installs what the system tests need on Debian 12, as root. Does nothing when all is there.
set -euo pipefail

packages=(
  ca-certificates git gnupg gpgsm openssh-client perl           # what a user has
  docker.io containerd runc podman conmon                       # engines
  mmdebstrap debian-archive-keyring                             # images for them
  openssh-server socat                                          # ssh targets, and what the bridge is measured beside
  expect tmux pinentry-curses pinentry-tty                      # a terminal, and who asks there
  bash-completion zsh fish csh tcsh                             # shells that people use
  iproute2 openssl procps                                       # a cluster's network, keys and settings
  chromium g++ make python3                                     # VS Code: its browser, its native modules
  gcc musl-dev gcc-aarch64-linux-gnu qemu-user-static            # the native server, here and on arm64
  busybox-static                                                # a target with nothing but a shell
  docker-compose                                                # projects whose containers get bridges by themselves
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done

# musl for arm64. Debian has it in its packages for arm64 alone, so it is taken from there, and put where nothing of
# this machine's own architecture is.
musl=/usr/local/lib/aarch64-linux-musl/libc.a
[ ${#missing[@]} -gt 0 ] || [ ! -e "$musl" ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "system-packages: run as root to install: ${missing[*]} musl-dev:arm64" >&2
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
[ ${#missing[@]} = 0 ] || apt-get install -qq --no-install-recommends "${missing[@]}"

if [ ! -e "$musl" ]; then
  place=$(mktemp -d)
  mkdir -p "$place/lists/partial" "$place/cache/archives/partial"
  arm64=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$place/lists"
    -o Dir::Cache="$place/cache" -o APT::Sandbox::User=root)
  (cd "$place" && apt-get "${arm64[@]}" -qq update && apt-get "${arm64[@]}" -qq download musl-dev:arm64)
  dpkg-deb --fsys-tarfile "$place"/musl-dev_*.deb |
    tar --extract --directory /usr/local --strip-components=2 ./usr/lib/aarch64-linux-musl ./usr/include/aarch64-linux-musl
  rm -rf "$place"
fi
