# Configuring and compiling a build folder.

configure() {           # FOLDER [MESON SETUP OPTION...]
        # meson writes build.ninja last: without it an earlier configuration failed, and meson starts again.
        [[ -f $1/build.ninja ]] || meson setup --prefix=/usr "$@"
}

compile() {             # FOLDER [MESON SETUP OPTION...]
        configure "$@"
        ninja -C "$1"
}
