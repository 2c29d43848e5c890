#!/bin/bash
# labels: extended fault resume root serial
# A sample of power_loss.sh on each file system.
ran=0
for filesystem in ext4 xfs; do
    EVERY=20 bash "$(dirname "$0")/power_loss.sh" $filesystem 1
    case $? in 0) ran=1 ;; 77) ;; *) exit 1 ;; esac
done
[ $ran -eq 1 ] || exit 77
