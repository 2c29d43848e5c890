# packages.sh - sourced by the scripts: installs Debian packages that are missing, saying which first.
# Usage: need_packages PACKAGE...
need_packages() {
    local missing=() package as_root=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "These packages are needed, and neither root nor sudo is here to install them:" >&2
            echo "  apt-get install ${missing[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    echo "Going to install from Debian (with what they depend on): ${missing[*]}"
    run "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    run "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 install \
        --no-install-recommends "${missing[@]}" >/dev/null
}

# Prints a command as one would type it (also where its output is redirected), and runs it.
exec 3>&1
run() {
    local word line='$'
    for word in "$@"; do
        [[ $word == *[[:space:]]* ]] && word="\"$word\""
        line+=" $word"
    done
    printf '\n%s\n' "$line" >&3
    "$@"
}

BUILD_PACKAGES="gcc make cmake pkg-config libc6-dev libdnnl-dev libjansson-dev libutf8proc-dev libxxhash-dev libonig-dev libarchive-dev zlib1g-dev libhwloc-dev nettle-dev libmicrohttpd-dev liburing-dev libopenmpi-dev openmpi-bin"
# MPICH is for the module and the test that run beside Open MPI's.
TEST_PACKAGES="g++ libcmocka-dev xz-utils curl mpich libmpich-dev"
# Shells that users of clusters log in with, beside those that every Debian has.
SHELL_PACKAGES="ksh zsh csh tcsh fish"
# With them, hosts of network namespaces, and file systems to break.
ROOT_PACKAGES="$SHELL_PACKAGES iproute2 util-linux e2fsprogs xfsprogs"
CLANG_PACKAGES="clang libclang-rt-14-dev libomp-dev"
# Compiles for AMD's GPUs; the newest of them need clang 19.
HIP_PACKAGES="g++ libamdhip64-dev rocm-device-libs clang-19 lld-19 clang-tools-19"

# Whether the package manager has all of them, asking for its lists anew if it does not.
have_packages() {
    command -v apt-cache >/dev/null || return 1
    local turn as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
    for turn in first second; do
        [ "$(apt-cache policy "$@" 2>/dev/null | grep -c '^  Candidate: [^(]')" -eq $# ] && return 0
        [ "$turn" = first ] && { "${as_root[@]}" apt-get -qq update 2>/dev/null || return 1; }
    done
    return 1
}
