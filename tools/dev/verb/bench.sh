folder=$build-release
options=(-Dtests=false -Dpeers=auto)

for argument; do # needs neither packages nor a build
        [[ $argument != --list ]] || exec bench/run --list
done
need build
want bench
# An existing folder is configured again: it finds libraries that were installed since.
[[ ! -f $folder/build.ninja ]] || meson setup --reconfigure "${options[@]}" "$folder" >&2
compile "$folder" --buildtype=release "${options[@]}" >&2
TSLAB_BUILD=$(realpath "$folder")
export TSLAB_BUILD
if [[ ${1:-} == app ]]; then
        need test
        exec /usr/bin/python3 bench/driver/app.py "${@:2}"
fi
exec bench/run "$@"
