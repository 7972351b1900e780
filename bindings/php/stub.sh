#!/usr/bin/env bash
# Makes the tables of arguments of a stub file, by PHP's own gen_stub.php with Debian's php-parser (or an own one, in
# PHP_PARSER). Arguments: the stub file, the header to make.
set -euo pipefail

config=${PHP_CONFIG:-php-config}
build=$("$config" --prefix)/lib/php/build
[[ -f $build/gen_stub.php ]] || build=$("$config" --extension-dir)/build
parser=${PHP_PARSER:-/usr/share/php/PhpParser}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$build/gen_stub.php" "$work/"
version=$(sed -n 's/.*\$version = "\(.*\)";.*/\1/p' "$build/gen_stub.php")
mkdir -p "$work/PHP-Parser-$version/lib"
ln -s "$parser" "$work/PHP-Parser-$version/lib/PhpParser"
name=$(basename "$1" .stub.php)
cp "$1" "$work/$name.stub.php"
"${PHP:-php}" -n -d extension=tokenizer "$work/gen_stub.php" -f "$work/$name.stub.php" >"$work/log" || {
        cat "$work/log" >&2
        exit 1
}
cp "$work/${name}_arginfo.h" "$2"
