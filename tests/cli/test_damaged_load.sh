#!/bin/bash
# labels: cli golden
# One turned bit in a tensor of DeepSpeed's or Megatron's file: no command takes it, and each says which entry of which
# file it is in. --no-verify-load takes it. What a file puts into a message does nothing to a terminal.
. "$(dirname "$0")/lib.sh"
same_run="--data-path $data/dataset/tiny_text_document --vocab-file $data/tiny/tiny-vocab.json
    --merge-file $data/tiny/tiny-merges.txt --split 949,50,1 --seq-length 64 --micro-batch-size 2 --global-batch-size 8
    --train-iters 20 --exit-interval 5 --lr 1e-3 --lr-decay-iters 20 --override-opt_param-scheduler --log-interval 1 --eval-iters 0 --threads 1"

# turn FILE BYTE: the lowest bit of that byte
turn() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# the middle of the moments, which are nearly all of the file
cp -r "$data/upstream/ds_z2_dp3_bf16_rr" ds
chmod -R u+w ds
file=bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt
at=$(($(stat -c %s ds/global_step4/$file) / 2))
ok inspect ds --verify
grep -q '^verified: [0-9]* bytes in 4 .pt files agree with their checksums' out || die "inspect does not say what agrees"
turn ds/global_step4/$file $at
part="$file: entry bf16_zero_pp_rank_1_mp_rank_00_optim_states/data/"
refused "$part" convert --to native ds out1
refused "is damaged: its CRC-32 is" convert --to native ds out1
refused "exp_avg_sq of embedding.word_embeddings.weight: ds/global_step4/" convert --to native ds out1
refused "$part" inspect ds --verify
refused "$part" pretrain-gpt --load ds $same_run --bf16
[ ! -e out1/latest ] || die "something was written of it"
ok zero-to-fp32 ds weights --tag global_step4 # which reads no moments
ok convert --to native --no-verify-load ds out2
grep -q 'checksums of .* are not compared: --no-verify-load' out || die "what was left out is not said"
ok pretrain-gpt --load ds --no-verify-load $same_run --bf16

# Megatron's: the commands that read weights
cp -r "$data/upstream/classic_dp2_distopt_bf16" mg
chmod -R u+w mg
file=mg/iter_0000004/mp_rank_00/distrib_optim.pt
turn $file $(($(stat -c %s $file) / 2))
refused "distrib_optim.pt: entry distrib_optim/data/" convert --to native mg out3
for command in "evaluate --micro-batch-size 2 --seq-length 64 --eval-iters 1" "generate --prompt a --out-seq-length 8"; do
    ok $command --no-verify-load --load mg --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt" \
        $([ "${command%% *}" = generate ] || echo --data-path "$data/dataset/tiny_text_document")
done

# Hugging Face's, in a tensor's name
cp -r "$data/upstream/hf_llama_tied_sharded" hf
chmod -R u+w hf
turn hf/pytorch_model-00001-of-00003.bin $(($(stat -c %s hf/pytorch_model-00001-of-00003.bin) / 2))
refused "pytorch_model-00001-of-00003.bin: entry " convert --to native hf out4
refused "pytorch_model-00001-of-00003.bin: entry " inspect hf --verify
ok inspect hf
ok convert --to native --no-verify-load hf out5

# nothing to compare with: said once
ok inspect --verify "$data/upstream/legacy_v0"
[ "$(cat out err | grep -c 'has no checksums, as files of PyTorch before 1.6: its numbers are taken as they are, as are those of 1 more')" -eq 1 ] ||
    die "files without checksums are not said once"

# an entry's name with bytes that are no text
cp -r "$data/upstream/ds_z2_dp3_bf16_rr" odd
chmod -R u+w odd
file=odd/global_step4/mp_rank_00_model_states.pt
at=$(LC_ALL=C grep -abo 'mp_rank_00_model_states/data/1' $file | tail -1 | cut -d: -f1) # in the directory, not in front of the data
printf '\xff\x9b' | dd of=$file bs=1 seek=$at conv=notrunc status=none
refused 'entry \xff\x9b_rank_00_model_states/data/1: its header and the directory differ' convert --to native odd out6
LC_ALL=C grep -q '[^ -~]' said && die "bytes of the file in the message: $(od -c said | head)"
mkdir "dépôt"
refused "dépôt" convert --to native "dépôt" out7
exit 0
