# Sourced by the scripts that build what tests need into a cache, with their `name`: a work directory that goes at the
# end, steps whose output is shown only if one fails, and the source of a Debian package.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpg-bridge-test

# Begins a build: what is above it in a script has found that something is missing.
begin_build() {
  if [ "$(id -u)" != 0 ]; then
    echo "$name: run as root to build it" >&2
    exit 1
  fi
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/work-XXXXXX")
  # Go's downloads are read-only.
  trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
  log=$work/log
  # A step's own output goes to the log, and so would the trap's.
  exec 3>&2
  trap 'echo "$name: failed, with these last lines:" >&3; tail -n 20 "$log" >&3' ERR
}

# step WHAT COMMAND: says what goes on; what the command prints is shown only if it fails.
step() {
  local what=$1
  shift
  echo "$name: $what" >&2
  "$@" >>"$log" 2>&1
}

# Downloads the source of a Debian package into the work directory; the machine's own lists of packages stay as they are.
debian_source() {
  mkdir -p "$work"/apt/{sources,lists/partial,cache/archives/partial}
  cd "$work"
  grep -hE '^deb ' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed 's/^deb /deb-src /' >apt/sources/source.list || true
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"apt/sources/$(basename "$file")"
  done
  cat >apt/apt.conf <<CONF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/apt/sources";
Dir::State::lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
CONF
  APT_CONFIG=$work/apt/apt.conf apt-get update
  APT_CONFIG=$work/apt/apt.conf apt-get source --download-only "$1"
}
