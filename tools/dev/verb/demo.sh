need build
arguments=("$@")
for i in "${!arguments[@]}"; do
        if [[ ${arguments[i]} == --php ]]; then
                unset "arguments[$i]"
                need test
                php=1
        fi
done
configure "$build" >&2
ninja -C "$build" demo ${php:+bindings/php/tslab.so} >&2
[[ -z ${php:-} ]] || exec php -n -d extension="$PWD/$build/bindings/php/tslab.so" examples/demo/demo.php "$build" "${arguments[@]}"
exec "$build/examples/tslab-demo" "$@"
