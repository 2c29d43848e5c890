#!/bin/bash
# labels: cli parallel
# On a terminal, a pseudo one of script(1): the live line, alone and under launchers, which never mixes with the lines that stay
# and never comes to a file; and Ctrl-C, which the terminal sends to all of its foreground.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/mpi.sh"
. "$here/signals.sh"
script --version 2>/dev/null | grep -q util-linux || { echo "skipped: there is no script(1) of util-linux"; exit 77; }

# on_terminal COMMAND LINE...: in the background, on a terminal of 100 columns, of which ./screen is a copy. Keys go to descriptor 9
mkfifo keys
on_terminal() {
    : >screen
    : >out
    : >err
    exec 9<>keys
    (
        trap - INT
        exec script -qefc "stty cols ${columns:-100}; exec $*" screen
    ) <keys >/dev/null 2>&1 9>&- &
    pid=$!
}
ctrl_c() { printf '\003' >&9; }

quoted=$(printf '%q ' "${run[@]:1}" --log-interval 20)
live='iteration [0-9]+/1000000 \([0-9]+ %\) \| lm loss [0-9.]+ \| [0-9]+ tokens/s \| ([0-9]+ s|[0-9]+ min|[0-9]+ h [0-9]+ min|[0-9]+ d [0-9]+ h) left'
followed=$live$'\033\\[K(\033|\r|\\[K)* iteration' # by a line that stays

# The screen's lines as they stand there in the end: what comes behind a line's last return; "^C" is the terminal's echo. No
# live line, nothing mixed.
screen_lines() { tr -d '\000' <screen | sed -e 's/\^C//' -e 's/\r$//' -e 's/.*\r//' -e 's/^\x1b\[K//'; }
clean_screen() {
    screen_lines >lines
    ! grep -a ' left' lines || die "$1: a live line stays"
    ! grep -aE '.(iteration +[0-9]+/|saving checkpoint|warning: )' lines | grep -av '^ iteration' || die "$1: lines are mixed"
    ! grep -aE '^ iteration' lines | grep -av '|$' || die "$1: a line is cut"
    [ "$(grep -acE '^ iteration' lines)" -gt 0 ] || die "$1: lines are missing"
}

launchers=("$TRIAX pretrain-gpt" "$TRIAX torchrun --nproc_per_node 2 pretrain_gpt.py" "$TRIAX torchrun --nproc_per_node 1 pretrain_gpt.py"
    "$TRIAX deepspeed --num_gpus 2 pretrain_gpt.py")
n=0
for how in "${launchers[@]}"; do
    n=$((n + 1))
    on_terminal "$how" "$quoted" --save terminal$n
    comes screen "$followed"
    ctrl_c
    comes screen 'warning: SIGINT: the (run saves and ends after this iteration; a second signal ends it at once|ranks are told to stop; .*all at once)'
    ends 0
    grep -qaF '[exiting program after receiving ' screen || die "$how: no orderly end"
    [ -s terminal$n/latest ] || die "$how: Ctrl-C did not save"
    clean_screen "$how"
done

# mpirun by itself; a shell in between; a rank's warning
echo 'exec "$@"' >shell
for how in "mpirun -n 2 $TRIAX pretrain-gpt" "mpirun -n 2 bash $work/shell $TRIAX pretrain-gpt"; do
    on_terminal "$how" "$quoted" --kill-switch-file stop
    comes screen "$followed"
    : >stop
    ends 0
    rm stop
    clean_screen "$how"
done

# never in a file, wherever else it may stand
for how in "${launchers[@]}" "mpirun -n 2 $TRIAX pretrain-gpt"; do
    on_terminal "$how" "$quoted" --kill-switch-file stop '>out'
    comes screen "$live"
    comes out '^ iteration'
    : >stop
    ends 0
    rm stop
    ! grep -qE $'\r|\033|left' out || die "$how: the live line comes to a file"
done
for how in "${launchers[@]:0:2}"; do
    on_terminal "$how" "$quoted" --exit-interval 100 '2>err'
    ends 0
    ! grep -qaE $'\033|left' screen err || die "$how: a live line without a terminal for standard error"
done
for how in "mpirun --tag-output -n 2 $TRIAX pretrain-gpt $quoted" "mpirun -n 2 bash -c $(printf '%q' "$TRIAX pretrain-gpt $quoted --exit-interval 100 2>&1 | cat >>out")"; do
    on_terminal "$how" --exit-interval 100
    ends 0
    ! grep -qaE $'\033|left' screen out || die "a live line where mpirun marks lines, or in a shell's pipe"
done

# a narrow terminal: what would wrap could not be erased
columns=30 on_terminal "${launchers[1]}" "$quoted" --kill-switch-file stop
comes screen $'\riteration [^\033]*\033'
: >stop
ends 0
rm stop
[ "$(grep -aoE $'\riteration [^\033]*' screen | awk '{ if (length($0) > n) n = length($0) } END { print n }')" -le 30 ] || die "a live line wraps"

# the second Ctrl-C, in an iteration that takes minutes
for how in "${launchers[@]}" "mpirun -n 2 $TRIAX pretrain-gpt"; do
    on_terminal "$how" "$quoted" --global-batch-size 200000 --train-iters 4 --save "$work/second"
    comes screen '^training'
    ctrl_c
    case $how in mpirun*) ;; *) comes screen 'the run saves and ends after this iteration' ;; esac
    ctrl_c
    code=0
    wait $pid || code=$?
    pid=
    [ $code -eq 130 ] || [[ $how == mpirun* && $code -ne 0 ]] || die "$how: exit code $code after a second Ctrl-C"
    for i in $(seq 400); do
        grep -laF "$work/second" /proc/[0-9]*/cmdline >left 2>/dev/null || true # 2 also where another process has just ended
        [ -s left ] || break
        # a second Ctrl-C may end mpirun before it has told its ranks
        case $how in mpirun*) sed 's,/proc/\([0-9]*\)/.*,\1,' left | xargs kill -9 2>/dev/null || true ;; esac
        sleep 0.05
    done
    [ ! -s left ] || die "$how: left over: $(cat left)"
    [ ! -e second/latest ] || die "$how: a second Ctrl-C saves"
done
echo "all passed"
