#!/bin/bash
# labels: cli parallel
# A model on two ranks is served by the first of them: the same text, and the launcher's word ends it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
command -v curl >/dev/null || { echo "skipped: no curl"; exit 77; }

mkdir model
cp "$data/golden/generation/model/"* model
cp "$data/tiny/tiny-vocab.json" model/vocab.json
cp "$data/tiny/tiny-merges.txt" model/merges.txt
job=0
trap '[ $job = 0 ] || kill -TERM $job 2>/dev/null || true; rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

for layout in "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2"; do
    : >log # read below, maybe before the job opens it
    "$TRIAX" torchrun --nproc_per_node 2 tools/run_text_generation_server.py --load model --port 0 \
        --num-layers 4 --hidden-size 128 --num-attention-heads 4 --max-position-embeddings 128 --micro-batch-size 1 \
        --seq-length 128 --out-seq-length 100 --temperature 1.0 --top_p 0.9 --seed 42 $layout >log 2>&1 &
    job=$!
    url=
    for i in $(seq 600); do
        url=$(sed -nE 's,^Serving .* at (http://[^ ]*/) .*,\1,p' log)
        [ -z "$url" ] || break
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    [ -n "$url" ] || { cat log >&2; die "$layout: no server"; }
    grep -q 'each request brings its own' log || die "silent about flags that do nothing"
    curl -sS -m 60 -o body -d '{"prompt": "First Citizen:", "max_tokens": 40, "temperature": 0}' "${url}v1/completions"
    grep -qF '"text":"\nAnd so, I have so,\nTo, I amance, I amance,\nTo, I have so, I amance"' body ||
        { cat body log >&2; die "$layout: another text"; }
    curl -sS -m 60 -o body -d '{"prompt": "KING", "max_tokens": 100, "min_tokens": 100}' "${url}v1/completions" &
    asking=$!
    until curl -sS -m 20 "${url}metrics" | grep -qE '^triax_texts_running 1|code="200"} 2'; do sleep 0.02; done
    kill -TERM $job
    code=0
    wait $job || code=$?
    job=0
    [ $code -eq 0 ] || { cat log >&2; die "$layout: exit $code after SIGTERM"; }
    wait $asking || { cat log >&2; die "$layout: the request that ran was cut"; }
    grep -q '"completion_tokens":100' body || die "$layout: the request that ran is not whole"
    grep -q '^All requests are finished$' log || { cat log >&2; die "$layout: no clean end"; }
done
