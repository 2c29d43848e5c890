#!/bin/bash
# labels: extended cli
# The commands of the pages in docs/howto from f to z, and what they say of ids.
. "$(dirname "$0")/howto.sh"
try_pages "$pages"/[f-z]*.md

cmp <(printf '[31373]\n[31373, 995]\n') tokenize/ids.txt || die "hello is another id"
echo '[31414]' | triax detokenize --vocab-file tokenize/gpt2-vocab.json --merge-file tokenize/gpt2-merges.txt 2>err | grep -qx ' oddly' ||
    die "31414 is not \" oddly\""
