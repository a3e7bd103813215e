#!/usr/bin/env bash
# Prints the directory of a Node that is new enough, and gets one from npm where there is none: Debian 12
# itself has 18. With a version as its argument: of exactly that one.
set -euo pipefail

wanted=${1:-20}

if [ $# = 0 ] && command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$wanted" ] &&
  command -v npm >/dev/null; then
  dirname "$(command -v node)"
  exit 0
fi

if ! command -v npm >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2
  apt-get install -qq --no-install-recommends npm >&2
fi
architecture=$(dpkg --print-architecture | sed 's/amd64/x64/')
# Root's own directory is closed to others, and tests run it as somebody else.
if [ "$(id -u)" = 0 ]; then cache=/var/cache; else cache=${XDG_CACHE_HOME:-$HOME/.cache}; fi
home=$cache/gpg-bridge-test/node-$wanted
bin=$home/node_modules/node-linux-$architecture/bin
[ -x "$bin/node" ] || npm install --loglevel=error --no-save --prefix "$home" "node-linux-$architecture@$wanted" >&2
echo "$bin"
