#!/bin/bash
# labels: fault resume root
# A sample of io_errors.sh.
EVERY=24 exec bash "$(dirname "$0")/io_errors.sh" 1
