#!/bin/bash
# labels: extended cli
# The commands of the pages in docs/howto from a to e.
. "$(dirname "$0")/howto.sh"
try_pages "$pages"/[a-e]*.md
