#!/bin/bash
# labels: cli
# The server as clients meet it: answers, streams, every kind of bad request, slow clients and those that go away, the
# token, and its end.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || { echo "skipped: no curl"; exit 77; }

mkdir model
cp "$data/golden/generation/model/"* model
cp "$data/tiny/tiny-vocab.json" model/vocab.json
cp "$data/tiny/tiny-merges.txt" model/merges.txt

server=0
trap '[ $server = 0 ] || kill -9 $server 2>/dev/null || true; rm -rf "$work"' EXIT

# start FLAGS...: a server of the model; $url and $port are where
start() {
    : >log # read below, maybe before the server opens it
    "$TRIAX" serve --load model --port 0 "$@" >log 2>&1 &
    server=$!
    local i
    for i in $(seq 400); do
        url=$(sed -nE 's,^Serving .* at (http://[^ ]*/) .*,\1,p' log)
        [ -z "$url" ] || break
        kill -0 $server || { cat log >&2; die "triax serve $*"; }
        sleep 0.05
    done
    [ -n "$url" ] || { cat log >&2; die "triax serve $* does not say where"; }
    port=${url##*:} port=${port%/}
}

# finish: SIGTERM ends it with 0
finish() {
    local code=0
    kill -TERM $server
    wait $server || code=$?
    server=0
    [ $code -eq 0 ] || { cat log >&2; die "after SIGTERM: exit $code"; }
    grep -q '^All requests are finished$' log || { cat log >&2; die "the log does not tell of the end"; }
}

# ask CODE PATH CURL...: is answered with that code; the body is in ./body, the head in ./head
ask() {
    local code=$1 path=$2 got
    shift 2
    got=$(curl -sS -m 60 -D head -o body -w '%{http_code}' "$@" "$url$path" 2>curl.err) || { cat curl.err log >&2; die "curl $path $*"; }
    [ "$got" = "$code" ] || { cat body log >&2; die "$path $*: $got, not $code"; }
}
says() { grep -qF -- "$1" body || { cat body >&2; die "the answer does not say $1"; }; }
heads() { grep -qi -- "$1" head || { cat head >&2; die "the head has no $1"; }; }
metric() { curl -sS -m 20 "${url}metrics" | sed -n "s/^$1 //p"; }
# until_metric NAME VALUE
until_metric() {
    local i
    for i in $(seq 400); do
        [ "$(metric "$1")" != "$2" ] || return 0
        sleep 0.05
    done
    die "$1 is $(metric "$1"), not $2"
}

start --read-timeout 1.5 --max-batch 4 --max-queue 3 --max-tokens 110 --request-timeout 300

# ---- what is there
ask 200 healthz && says '{"status":"ok"}'
ask 200 v1/models && says '"id":"model"' && says '"max_model_len":128'
ask 200 '' && says '<title>triax</title>' && heads '^content-security-policy: .*connect-src .self.'
! grep -Eq '(src|href)="?(https?:)?//' body || die "the page needs other pages"
ask 200 metrics && says 'triax_http_requests_total{path="/healthz",code="200"} 1'
ask 404 nothing && ask 405 api && heads '^allow: PUT, POST' && ask 405 healthz -X DELETE

# ---- Megatron's server: the stored greedy text of Hugging Face
greedy='\nAnd so, I have so,\nTo, I amance, I amance,\nTo, I have so, I amance'
ask 200 api -X PUT -H 'Content-Type: application/json' \
    -d '{"prompts": ["First Citizen:", "KING"], "tokens_to_generate": 40, "top_k": 1, "logprobs": true, "no_log": true}'
says "{\"text\":[\"First Citizen:$greedy\",\"KING"
says '"segments":[["F","ir","st"," C","it","i","z","en",":","\n","And",' && says '"logprobs":[[-'
grep -q 'PUT /api' log && die "no_log is logged"
ask 200 api -d '{"prompts": ["First Citizen:"], "tokens_to_generate": 40, "top_k": 1, "stop_on_eol": true}'
says '{"text":["First Citizen:\n"],' && says '"logprobs":null}'
ask 200 api -d '{"prompts": ["First Citizen:"], "tokens_to_generate": 3, "top_k": 1, "prevent_newline_after_colon": true}'
grep -q '"text":\["First Citizen:[^\\]' body || { cat body; die "a line ends behind a colon"; }
ask 200 api -d '{"prompts": ["First Citizen:"], "tokens_to_generate": 0, "logprobs": true}'
says '"text":["First Citizen:"]' && says '"logprobs":[[-'
ask 200 api -d '{"prompts": [""], "add_BOS": true, "tokens_to_generate": 2, "random_seed": 4, "top_p": 0.9, "top_p_decay": 0.9, "top_p_bound": 0.1}'
ask 200 api -d '{"prompts": ["First Citizen:"], "tokens_to_generate": 8, "beam_width": 2, "length_penalty": 1.0, "stop_token": 511}'
says '"scores":[-' && says '{"text":["First Citizen:'

# mistakes, in its words
bad() { ask 400 api -d "$1" && says "$2"; }
bad '{}' '"prompts argument required"'
bad '{"prompts": ["a"], "max_len": 3}' '"max_len is no longer used.  Replace with tokens_to_generate"'
bad '{"prompts": "a"}' '"prompts is not a list of strings"'
bad '{"prompts": [1]}' '"prompts is not a list of strings"'
bad '{"prompts": []}' '"prompts is empty"'
bad '{"prompts": [""]}' '"Empty prompts require add_BOS=true"'
bad '{"prompts": ["a"], "tokens_to_generate": 0}' 'implies logprobs should be True'
bad '{"prompts": ["a"], "top_k": 2, "top_p": 0.5}' 'cannot set both top-k and top-p samplings.'
bad '{"prompts": ["a"], "tokens_to_generate": -1}' 'tokens_to_generate must be an integer from 0 to 110'
bad '{"prompts": ["a"], "temperature": -0.5}' 'temperature must be a number from 0 and at most 100'
bad '{"prompts": ["First Citizen: Before we proceed any further, hear me speak"], "tokens_to_generate": 110}' \
    'Length of prompt + tokens_to_generate longer than allowed'
bad '{"prompts": ["a", "b"], "beam_width": 2}' 'one prompt'
bad '{"prompts": ["a"], "beam_width": 3}' 'beam_width is 3'

# ---- completions
ask 200 v1/completions -d '{"model": "model", "prompt": "First Citizen:", "max_tokens": 40, "temperature": 0}'
says "\"text\":\"$greedy\"" && says '"finish_reason":"length"'
says '"usage":{"prompt_tokens":9,"completion_tokens":40,"total_tokens":49}'
ask 200 v1/completions -d '{"prompt": [37, 365, 299, 296, 269, 72, 89, 282, 25], "max_tokens": 40, "temperature": 0, "stop": ["have", "To,"]}'
says '"text":"\nAnd so, I "' && says '"finish_reason":"stop"'
ask 200 v1/completions -d '{"prompt": ["KING", "First"], "n": 2, "max_tokens": 3, "seed": 1, "echo": true, "logprobs": 2}'
says '"index":3' && says '"text_offset":[0,' && says '"token_logprobs":[null,-'
cp body once
ask 200 v1/completions -d '{"prompt": ["KING", "First"], "n": 2, "max_tokens": 3, "seed": 1, "echo": true, "logprobs": 2}'
cmp <(sed 's/.*"choices"//' once) <(sed 's/.*"choices"//' body) || die "the same seed, another text"

# a stream holds the same text, piece by piece
ask 200 v1/completions -N -d '{"prompt": "First Citizen:", "max_tokens": 40, "temperature": 0, "stream": true, "stream_options": {"include_usage": true}}'
heads '^content-type: text/event-stream'
[ "$(sed -nE 's/.*"text":"(.*)","index":0.*/\1/p' body | tr -d '\n')" = "$greedy" ] || { cat body; die "the stream's text"; }
[ "$(grep -c '^data: {' body)" -gt 2 ] || { cat body; die "a stream in one piece"; }
[ "$(grep -c '"finish_reason":"length"' body)" = 1 ] || die "the end of a stream"
says '"completion_tokens":40' && [ "$(tail -n 2 body)" = 'data: [DONE]' ] || { tail -n 3 body; die "no [DONE]"; }

bad() { ask "${3:-400}" v1/completions -d "$1" && says '{"error":{"message":"' && says "$2"; }
bad '{"prompt": "a", "model": "gpt-5"}' 'there is no model gpt-5' 404
bad '{"prompt": "a", "max_tokens": -5}' 'max_tokens must be an integer from 0 to 110'
bad '{"prompt": "a", "max_tokens": 1e300}' 'max_tokens must be'
bad '{"prompt": "a", "max_tokens": 99999999999999999999999999}' 'not JSON'
bad '{"prompt": "a", "temperature": -1}' 'temperature must be'
bad '{"prompt": "a", "top_p": 2}' 'top_p must be'
bad '{"prompt": "a", "n": 1000}' 'n must be'
bad '{"prompt": "a", "logprobs": true}' 'logprobs must be'
bad '{"prompt": "a", "logit_bias": {"1": 5}}' 'logit_bias is not built'
bad '{"prompt": "a", "tempreature": 1}' 'tempreature is not a field'
bad '{"prompt": [512]}' 'tokens are integers from 0 to 511'
bad '{"prompt": {}}' 'prompt must be'
bad '{"prompt": "a"' 'not JSON: line 1'
bad 'hello' 'not JSON'
bad '[1]' 'not an object'
bad '' 'not JSON'
printf '{"prompt": "\xff\xfe"}' >utf8
bad @utf8 'not JSON'
printf '{"prompt": "a\\u0000b", "max_tokens": 2}' >nul
ask 200 v1/completions --data-binary @nul

# ---- the port that this server has
refused 'Address already in use; give another --port, or 0 for a free one' serve --load model --port "$port"

# ---- sizes: a body of 10 MB, asked for before, or sent at once, or in chunks
head -c 10000000 /dev/zero >large
ask 413 v1/completions --data-binary @large && says '--max-body'
ask 413 v1/completions --data-binary @large -H 'Expect:'
ask 413 api --data-binary @large -H 'Expect:' -H 'Transfer-Encoding: chunked'

# ---- what is no HTTP: the connection ends, the server does not.  raw TEXT: the answer's first line is in ./raw
raw() {
    exec 5<>/dev/tcp/127.0.0.1/"$port"
    (printf "$1" >&5) 2>/dev/null || true
    timeout 10 head -n 1 <&5 >raw || die "no end to a connection that sent $1"
    exec 5>&-
}
raw 'garbage\r\n\r\n'
raw '\x01\xff\r\n\r\n'
raw 'POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n' && grep -q ' 400 ' raw || die "a length below 0"
raw 'POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n' && grep -q ' 413 ' raw || die "a huge length"
raw 'POST /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n' && grep -q ' 400 ' raw || die "a bad chunk"
raw "GET / HTTP/1.1\r\nHost: x\r\nX: $(head -c 60000 /dev/zero | tr '\0' a)\r\n\r\n" && grep -q ' 431 ' raw || die "a long head"
ask 200 healthz

# ---- slow clients: half a head, half a body, nothing at all
exec 5<>/dev/tcp/127.0.0.1/"$port" 6<>/dev/tcp/127.0.0.1/"$port" 7<>/dev/tcp/127.0.0.1/"$port"
printf 'POST /api HT' >&5
printf 'POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"pro' >&6
# a byte now and then does not help
(for i in 1 2 3 4 5 6; do sleep 0.4 && printf 'm' >&6; done) 2>/dev/null || true
timeout 10 cat <&6 >slow || die "half a body keeps its connection"
grep -q '^HTTP/1.1 408' slow || { cat slow; die "half a body is not answered 408"; }
timeout 10 cat <&5 >slow || die "half a head keeps its connection"
timeout 10 cat <&7 >slow || die "nothing keeps its connection"
exec 5>&- 6>&- 7>&-
ask 200 healthz

# ---- a client that goes away, waiting or while it reads a stream, takes nobody's time
long='{"prompt": "First Citizen:", "max_tokens": 110, "min_tokens": 110, "n": 100'
curl -sS -m 0.4 -o left -d "$long}" "${url}v1/completions" 2>left.err && die "a hundred texts in no time"
curl -sS -m 0.4 -N -o left -d "$long, \"stream\": true}" "${url}v1/completions" 2>left.err && die "a hundred texts in no time"
until_metric triax_requests_cancelled_total 2
until_metric triax_texts_running 0

# ---- as many as may wait do: one more is told to come again
for i in 1 2 3; do
    curl -sS -m 60 -o busy$i -w '%{http_code}\n' -d "$long}" "${url}v1/completions" >code$i 2>busy.err &
    busy[i]=$!
    until_metric triax_requests_waiting $i
done
ask 503 v1/completions -d '{"prompt": "a"}' && heads '^retry-after: 1'
for i in 1 2 3; do kill "${busy[i]}"; done
until_metric triax_texts_running 0

# ---- SIGTERM: what has come is finished, nobody new comes in. 60 texts each, so that the first is at work when the third comes
for i in 1 2 3; do
    curl -sS -m 300 -N -o last$i -d "{\"prompt\": \"KING\", \"max_tokens\": 110, \"min_tokens\": 110, \"n\": 60, \
        \"stream\": $([ $i = 1 ] && echo true || echo false)}" "${url}v1/completions" 2>last.err &
    busy[i]=$!
    until_metric triax_requests_waiting $i
done
finish
for i in 1 2 3; do wait "${busy[i]}" || { cat last.err; die "a request that ran at SIGTERM"; }; done
grep -q '^data: \[DONE\]' last1 && grep -q '"completion_tokens":6600' last2 && grep -q '"completion_tokens":6600' last3 ||
    { cat last1 last2 last3 log; die "SIGTERM cut a request"; }
curl -sS -m 5 "$url" >left 2>&1 && die "it still answers"

# ---- a token
echo secret-1 >token
start --auth-token-file token --request-timeout 0.2 --max-tokens 100 --served-model-name tiny
ask 401 v1/models && heads '^www-authenticate: Bearer' && says authentication_error
ask 401 api -d '{"prompts": ["a"]}' -H 'Authorization: Bearer secret-2'
ask 401 api -d '{"prompts": ["a"]}' -H 'Authorization: Bearer secret-12'
ask 401 metrics -H 'Authorization: Basic secret-1'
ask 200 healthz && ask 200 ''
ask 200 v1/models -H 'Authorization: Bearer secret-1' && says '"id":"tiny"'
# a request that takes too long
ask 504 v1/completions -H 'Authorization: Bearer secret-1' -d '{"prompt": "a", "max_tokens": 100, "min_tokens": 100, "n": 128}'
finish

# ---- beam search ends with its client, or with the server, at the next token. Where a search was done before that was
# noticed, it is tried again
start --max-batch 128 --shutdown-timeout 0
beam='{"prompts": ["First Citizen:"], "tokens_to_generate": 110, "beam_width": 64, "stop_token": 511}'
for i in $(seq 20); do
    curl -sS -m 60 -o left -d "$beam" "${url}api" 2>left.err &
    gone=$!
    while [ "$(metric triax_texts_running)" = 0 ] && kill -0 $gone 2>/dev/null; do :; done
    kill $gone 2>/dev/null || true
    wait $gone || true
    until_metric triax_texts_running 0
    [ "$(metric triax_requests_cancelled_total)" = 0 ] || break
done
until_metric triax_requests_cancelled_total 1
ask 200 api -d '{"prompts": ["First Citizen:"], "tokens_to_generate": 4, "beam_width": 2}' && says '"scores":['
curl -sS -m 60 -o last -w '%{http_code}\n' -d "$beam" "${url}api" >code 2>last.err &
last=$!
while [ "$(metric triax_texts_running)" = 0 ] && kill -0 $last 2>/dev/null; do :; done
finish
wait $last || { cat last.err log; die "no answer to a search that ran at SIGTERM"; }

# ---- what cannot be served
refused '--port 70000' serve --load model --port 70000
refused 'needs --load' serve
refused '--max-context 129: the model has 128 positions' serve --load model --max-context 129
refused '--host 192.0.2.1' serve --load model --port 0 --host 192.0.2.1
: >empty
refused 'its first line is to be a token' serve --load model --auth-token-file empty
refused 'give one of the two' serve --load model --auth-token-file token --auth-token x
"$TRIAX" tools/run_text_generation_server.py --help >out && grep -q -- --max-queue out || die "the script's name"
