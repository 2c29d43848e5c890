#!/bin/bash
# labels: extended fault resume
# A sample of kill_points.sh and random_kills.sh.
here=$(dirname "$0")
EVERY=16 bash "$here/kill_points.sh" 1 && EVERY=64 bash "$here/kill_points.sh" 4 8 && EVERY=1 bash "$here/random_kills.sh" 9 20
