# Installing Debian packages. tools/packages lists them by purpose.

declare -A packages=()

packages_read() {
        local purpose list

        while read -r purpose list; do
                [[ -z $purpose || $purpose == '#'* ]] || packages[$purpose]+=" $list"
        done <tools/packages
}

packages_missing() {    # PURPOSE...
        local purpose package installed
        local -a wanted=()

        for purpose; do
                # shellcheck disable=SC2206 # split into words on purpose
                wanted+=(${packages[$purpose]})
        done

        # dpkg-query fails where it does not know one of the packages, and still lists the others.
        installed=$'\n'$(dpkg-query -W -f='${Package} ${db:Status-Status}\n${Package}:${Architecture} ${db:Status-Status}\n' \
                 "${wanted[@]}" 2>/dev/null || true)$'\n'
        for package in "${wanted[@]}"; do
                [[ $installed == *$'\n'"$package installed"$'\n'* ]] || echo "$package"
        done
}

packages_install() {    # PACKAGE...
        local -a as_root=()

        if ((EUID != 0)); then
                command -v sudo >/dev/null || die "not root and no sudo here; please have these packages installed: $*"
                as_root=(sudo)
        fi

        # Standard output belongs to the verb, which may stand in a pipe.
        {
                echo "dev: installing $*"
                "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update &&
                        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
                                -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
        } >&2 || die "could not install $*"
}

need() {                # PURPOSE...
        local -a missing

        # On other systems meson names the libraries that it does not find.
        command -v dpkg-query >/dev/null || return 0
        mapfile -t missing < <(packages_missing "$@")
        ((${#missing[@]} == 0)) || packages_install "${missing[@]}"
}

want() {                # PURPOSE...: like need, but goes on without packages that cannot be installed
        local package
        local -a missing

        command -v dpkg-query >/dev/null || return 0
        mapfile -t missing < <(packages_missing "$@")
        ((${#missing[@]} > 0)) || return 0
        (packages_install "${missing[@]}") && return 0
        # apt installs none of them where it does not know one: try them one by one.
        for package in "${missing[@]}"; do
                (packages_install "$package") || echo "dev: going on without $package" >&2
        done
}

need_foreign() {        # ARCHITECTURE: libraries of another processor stand beside our own
        local -a as_root=()

        command -v dpkg >/dev/null && ! dpkg --print-foreign-architectures | grep -qx "$1" || return 0
        ((EUID == 0)) || as_root=(sudo)
        "${as_root[@]}" dpkg --add-architecture "$1"
}

need_node() {           # Node with its headers, which may come from elsewhere, where Debian's would not go beside it
        [[ -e $(dirname "$(command -v node || echo /none/bin/node)")/../include/node/node_api.h ]] || need node
}

packages_read
