# again.sh - Open MPI 4.1's TCP transport now and then calls a null pointer inside MPI_Init when Slurm has started it on a busy
# machine (about one start in fifty on two cores). Such a start says nothing but that, and is repeated; all else is for the test.

# crashed FILE: what was started has printed nothing of its own
crashed() { grep -q 'Signal: Segmentation fault' "$1" && ! grep -qE '^rank |iteration +[0-9]+/' "$1"; }

# start NAME COMMAND...: into NAME.out, the exit code into NAME.code
start() {
    local name=$1 try
    shift
    for try in 1 2 3 4 5; do
        "$@" >"$name.out" 2>&1
        echo $? >"$name.code"
        crashed "$name.out" || break
    done
}
