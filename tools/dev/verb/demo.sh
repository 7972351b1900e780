need build
configure "$build" >&2
ninja -C "$build" demo >&2
exec "$build/examples/tslab-demo" "$@"
