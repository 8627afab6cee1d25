#!/bin/sh
# Installs Kernloom from the archive of a release, without Rust and without a compiler, and removes it again:
#
#     sh install.sh [--prefix DIR] [ARCHIVE]
#     sh install.sh [--prefix DIR] --uninstall
#
# ARCHIVE is a file or an address that ends in .tar.gz; its checksum lies beside it, with .sha256 behind the name, and
# nothing is installed that does not match. Without ARCHIVE, it is that of the release that this script came with. DIR is
# ~/.local if nothing is said. What was written is listed in DIR/share/kernloom/installed, and only that is removed.
set -eu

# The folder of the release's files, and its version; both are filled in where a release is made.
release='@RELEASE@'
version='@VERSION@'

fail() { echo "install.sh: $*" >&2; exit 1; }
prefix=${HOME:-}/.local action=install archive=
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -gt 1 ] || fail "--prefix needs a folder"; prefix=$2; shift ;;
    --uninstall) action=uninstall ;;
    -*) fail "unknown option $1; usage: install.sh [--prefix DIR] [--uninstall | ARCHIVE]" ;;
    *) archive=$1 ;;
  esac
  shift
done
list=$prefix/share/kernloom/installed

# Removes what an installation has listed, and the folders that are empty then.
remove() {
  while read -r file; do
    case $file in *..* | /*) continue ;; esac
    rm -f "$prefix/$file"
    folder=$(dirname "$file")
    while [ "$folder" != . ] && rmdir "$prefix/$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
  done <"$1"
}

if [ "$action" = uninstall ]; then
  [ -f "$list" ] || fail "nothing is installed in $prefix ($list is not there)"
  copy=$(mktemp)
  cp "$list" "$copy"
  remove "$copy"
  rm -f "$copy"
  echo "removed Kernloom from $prefix; kernels that were compiled and models stay in ~/.cache"
  exit 0
fi

if [ -z "$archive" ]; then
  case $release in @*) fail "name the archive of a release: install.sh kernloom-VERSION-$(uname -m)-linux.tar.gz" ;; esac
  [ "$(uname -s)" = Linux ] || fail "releases are for Linux; elsewhere it is built from source"
  archive=$release/kernloom-$version-$(uname -m)-linux.tar.gz
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() {
  case $1 in
    https://*)
      if command -v curl >/dev/null; then curl --proto '=https' --tlsv1.2 -fsSL "$1" -o "$2"
      elif command -v wget >/dev/null; then wget -q --https-only -O "$2" "$1"
      else fail "curl or wget is needed to fetch $1"; fi ;;
    *://*) fail "$1 is fetched by https only" ;;
    *) cp "$1" "$2" ;;
  esac || fail "cannot get $1"
}
fetch "$archive" "$work/archive.tar.gz"
fetch "$archive.sha256" "$work/checksum"
read -r wanted _ <"$work/checksum" || true
found=$(sha256sum "$work/archive.tar.gz")
found=${found%% *}
[ -n "$wanted" ] && [ "$wanted" = "$found" ] || fail "$archive is not what its checksum says (${wanted:-none}, found $found)"

mkdir "$work/files"
tar -xzf "$work/archive.tar.gz" -C "$work/files"
root=
for folder in "$work"/files/*; do root=$folder; done
[ -x "$root/bin/kernloom" ] || fail "$archive has no program in it"
"$root/bin/kernloom" --version >/dev/null || fail "the program does not run here"
(cd "$root" && find . -type f | sed 's|^\./||') >"$work/list"
echo share/kernloom/installed >>"$work/list"
if [ -f "$list" ]; then
  cp "$list" "$work/before"
  remove "$work/before"
fi
# Kernels are loaded only from where nobody else can write.
umask 022
mkdir -p "$prefix"
cp -R "$root"/. "$prefix"
cp "$work/list" "$list"
echo "installed $("$prefix/bin/kernloom" --version) in $prefix"
case :${PATH:-}: in
  *:"$prefix/bin":*) echo "try: kernloom run" ;;
  *) echo "try: $prefix/bin/kernloom run  (or put $prefix/bin on PATH)" ;;
esac
