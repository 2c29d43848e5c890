#!/bin/bash
# labels: extended fault resume
# A sample of kill_points.sh, also of --save-format, and of random_kills.sh, and of io_errors.sh of --save-format.
here=$(dirname "$0")
EVERY=16 bash "$here/kill_points.sh" 1 && EVERY=64 bash "$here/kill_points.sh" 4 8 && EVERY=1 bash "$here/random_kills.sh" 9 20 &&
    FORMAT=deepspeed EVERY=96 bash "$here/kill_points.sh" 1 4 && FORMAT=deepspeed EVERY=40 bash "$here/io_errors.sh" 1
