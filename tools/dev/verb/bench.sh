folder=$build-release
options=(-Dtests=false -Dpeers=auto)

for argument; do # needs neither packages nor a build
        [[ $argument != --list ]] || exec bench/run --list
done
need build
want bench
# An existing folder is configured again, and forgets the libraries and headers that it did not find: some of them may
# have been installed since.
if [[ -f $folder/build.ninja ]]; then
        meson configure --clearcache "$folder" >&2
        meson setup --reconfigure "${options[@]}" "$folder" >&2
fi
compile "$folder" --buildtype=release "${options[@]}" >&2
TSLAB_BUILD=$(realpath "$folder")
export TSLAB_BUILD
if [[ ${1:-} == app ]]; then
        need test
        exec /usr/bin/python3 bench/driver/app.py "${@:2}"
fi
if [[ ${1:-} == near ]]; then
        exec /usr/bin/python3 bench/driver/near.py "${@:2}"
fi
if [[ ${1:-} == php ]]; then
        need test
        exec /usr/bin/python3 bench/driver/php.py "${@:2}"
fi
if [[ ${1:-} == languages ]]; then
        need test
        need_node
        exec /usr/bin/python3 bench/driver/languages.py "${@:2}"
fi
exec bench/run "$@"
