#!/bin/bash
# labels: parallel root
# triax torchrun for several nodes does not depend on the user's login shell, for which Open MPI writes its daemon's
# command: each one that is here, named by a passwd file that only the torchruns of two nodes on this host see.
. "$(dirname "$0")/lib.sh"

export TMPDIR=$work # a root of a user namespace cannot write to Open MPI's folder of the true one's
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(--map-root-user)
cat >with_shell <<'S'
set -e
shell=$1; shift
awk -F: -v OFS=: -v shell="$shell" '$3 == 0 { $7 = shell } 1' /etc/passwd >passwd
mount --bind passwd /etc/passwd
[ "$(getent passwd 0 | cut -d: -f7)" = "$shell" ] || { echo "skipped: the login shell does not come from /etc/passwd here"; exit 77; }
for i in 1 0; do
    "$TRIAX" torchrun --nnodes 2 --node_rank $i --master_addr localhost --master_port 29641 --rdzv_conf timeout=60 plan >"out$i" 2>&1 &
done
wait $! || { cat out0 out1; exit 1; }
wait
S
unshare "${as_root[@]}" --mount true 2>/dev/null || skip "no mount namespace can be made here, so the login shell stays as it is"

run="" missing=""
for shell in sh dash ksh bash zsh csh tcsh fish; do
    path=$(command -v "$shell") || { missing+=" $shell"; continue; }
    unshare "${as_root[@]}" --mount bash with_shell "$path"
    case $? in 0) ;; 77) exit 77 ;; *) die "login shell $path" ;; esac
    [ "$(grep -c '^rank [01] of 2 .* sum 1 ' out0)" -eq 2 ] || { cat out0 out1; die "login shell $path: not two ranks"; }
    run+=" $shell"
done
echo "passed in $SECONDS s with$run${missing:+; not installed here, so not tried:$missing}"
