/* commands.h - the commands of the program: one row each, with all that is decided by which command it is. Their groups
 * of options are those of config/options.def (GROUP), whose rows ALSO and BARE add single options.
 *
 *  JOB       a command of one job: `triax NAME flags`. cmd/ has the function that runs it, cmd_<run>
 *  LAUNCHER  one that starts the ranks of another: it takes flags, a script and the script's flags
 *  PROGRAM   the options of programs that use the library's engine; nobody types its name
 *
 *  Each takes (constant, name, run, traits, load, groups, summary). The order is that of --help and of docs/options.md.
 */
#ifndef TX_KINDS_COMMANDS_H
#define TX_KINDS_COMMANDS_H

#include "kinds/kind.h"

enum tx_command_trait {
    TX_OUTPUT_IS_DATA = 1, /* standard output has its results; messages go to standard error */
    TX_COMPUTES = 2,       /* for a while, with all its threads: they may be bound to cores */
    TX_ALONE = 4,          /* in one process; of the others some take ranks, and the rest only shows */
    TX_ON_RANKS = 8,       /* the job takes place on all ranks that a launcher has started */
    TX_TAKES_SIGNALS = 16  /* its ranks end well by SIGUSR1 and SIGTERM */
};

/* What --load means to a command. */
enum tx_command_load {
    TX_LOAD_NOTHING, /* it has no --load, or takes its paths otherwise */
    TX_LOAD_RESUMES, /* trains: continues from the checkpoint */
    TX_LOAD_PLANS,   /* plans a run that would continue from it */
    TX_LOAD_MODEL    /* reads a trained model, whose checkpoint knows its tokenizer */
};

#define TX_GROUPS_UPSTREAM (G(EXPERTS) | G(OTHER_MODELS) | G(CORE))
#define TX_GROUPS_TRAINING                                                                                      \
    (G(MODEL) | G(TRAIN) | G(LR) | G(DS_SCHEDULE) | G(REGULARIZATION) | G(INIT) | G(PRECISION) | G(RECOMPUTE) | \
     G(CHECKPOINT) | G(DATA) | G(FINETUNE) | G(TOKENIZER) | G(VALIDATION) | G(LOGGING) | G(DISTRIBUTED) |       \
     G(DEEPSPEED) | TX_GROUPS_UPSTREAM | G(GLOBAL))
#define TX_GROUPS_ENGINE                                                                                             \
    (G(TRAIN) | G(LR) | G(DS_SCHEDULE) | G(REGULARIZATION) | G(INIT) | G(PRECISION) | G(RECOMPUTE) | G(CHECKPOINT) | \
     G(VALIDATION) | G(LOGGING) | G(DISTRIBUTED) | G(DEEPSPEED) | G(GLOBAL))

/* clang-format off */
#define TX_COMMANDS(JOB, LAUNCHER, PROGRAM)                                                                                  \
    JOB(TX_COMMAND_TRAIN_TOKENIZER, "train-tokenizer", train_tokenizer,                                                      \
        TX_ALONE, TX_LOAD_NOTHING,                                                                                           \
        G(INPUT) | G(TRAIN_TOKENIZER) | G(GLOBAL),                                                                           \
        "Learn a vocabulary from text: byte-level BPE for GPT, WordPiece for BERT.")                                         \
    JOB(TX_COMMAND_PREPROCESS_DATA, "preprocess-data", preprocess_data,                                                      \
        TX_ALONE, TX_LOAD_NOTHING,                                                                                           \
        G(INPUT) | G(TOKENIZER) | G(PREPROCESS) | G(GLOBAL),                                                                 \
        "Turn JSON lines or plain text into Megatron's .bin and .idx files.")                                                \
    JOB(TX_COMMAND_TOKENIZE, "tokenize", tokenize,                                                                           \
        TX_OUTPUT_IS_DATA | TX_ALONE, TX_LOAD_NOTHING,                                                                       \
        G(TOKENIZER) | G(GLOBAL),                                                                                            \
        "Text on standard input to token ids on standard output.")                                                           \
    JOB(TX_COMMAND_DETOKENIZE, "detokenize", detokenize,                                                                     \
        TX_OUTPUT_IS_DATA | TX_ALONE, TX_LOAD_NOTHING,                                                                       \
        G(TOKENIZER) | G(GLOBAL),                                                                                            \
        "Token ids on standard input to text on standard output.")                                                           \
    JOB(TX_COMMAND_MERGE_DATASETS, "merge-datasets", merge_datasets,                                                         \
        TX_ALONE, TX_LOAD_NOTHING,                                                                                           \
        G(MERGE) | G(GLOBAL),                                                                                                \
        "Join datasets into one, byte for byte as Megatron's tool does.")                                                    \
    JOB(TX_COMMAND_INSPECT, "inspect", inspect,                                                                              \
        TX_OUTPUT_IS_DATA | TX_ALONE, TX_LOAD_MODEL,                                                                         \
        G(INSPECT) | G(TOKENIZER) | G(GLOBAL),                                                                               \
        "Show and check what a dataset, a checkpoint or a Hugging Face folder holds.")                                       \
    JOB(TX_COMMAND_INSPECT_SAMPLES, "inspect-samples", inspect_samples,                                                      \
        TX_OUTPUT_IS_DATA | TX_ALONE, TX_LOAD_MODEL,                                                                         \
        TX_GROUPS_TRAINING | G(INSPECT_SAMPLES) | G(BERT) | G(EARLY),                                                        \
        "Show the samples that a run with the same flags will see.")                                                         \
    JOB(TX_COMMAND_ANALYZE_DATA, "analyze-data", analyze_data,                                                               \
        TX_COMPUTES | TX_ON_RANKS, TX_LOAD_MODEL,                                                                            \
        TX_GROUPS_TRAINING | G(ANALYZE) | G(BERT) | G(EARLY),                                                                \
        "Measure how difficult training samples are, for --data-efficiency-curriculum-learning.")                            \
    JOB(TX_COMMAND_PRETRAIN_GPT, "pretrain-gpt", pretrain,                                                                   \
        TX_COMPUTES | TX_ON_RANKS | TX_TAKES_SIGNALS, TX_LOAD_RESUMES,                                                       \
        TX_GROUPS_TRAINING | G(NOT_BERT) | G(EARLY),                                                                         \
        "Train a GPT model from a dataset made by preprocess-data.")                                                         \
    JOB(TX_COMMAND_PRETRAIN_BERT, "pretrain-bert", pretrain,                                                                 \
        TX_COMPUTES | TX_ON_RANKS | TX_TAKES_SIGNALS, TX_LOAD_RESUMES,                                                       \
        TX_GROUPS_TRAINING | G(BERT) | G(EARLY),                                                                             \
        "Train a BERT model from a dataset of sentences made by preprocess-data --split-sentences.")                         \
    JOB(TX_COMMAND_PLAN, "plan", plan,                                                                                       \
        TX_OUTPUT_IS_DATA, TX_LOAD_PLANS,                                                                                    \
        TX_GROUPS_TRAINING | G(PLAN) | G(BERT) | G(EARLY),                                                                   \
        "What a training run will take: parameters, memory, FLOPs; nothing is allocated.")                                   \
    JOB(TX_COMMAND_EVALUATE, "evaluate", evaluate,                                                                           \
        TX_OUTPUT_IS_DATA | TX_COMPUTES | TX_ON_RANKS, TX_LOAD_MODEL,                                                        \
        G(EVALUATE) | G(TOKENIZER) | G(GLOBAL),                                                                              \
        "Score a checkpoint: loss and perplexity of a dataset or text, LAMBADA, multiple choice.")                           \
    JOB(TX_COMMAND_GENERATE, "generate", generate,                                                                           \
        TX_OUTPUT_IS_DATA | TX_COMPUTES | TX_ON_RANKS, TX_LOAD_MODEL,                                                        \
        G(GENERATE) | G(SAMPLING) | G(SAMPLE_FILES) | G(TOKENIZER) | G(GLOBAL),                                              \
        "Sample text from a checkpoint.")                                                                                    \
    JOB(TX_COMMAND_GENERATE_SAMPLES_GPT, "generate-samples-gpt", generate,                                                   \
        TX_OUTPUT_IS_DATA | TX_COMPUTES | TX_ON_RANKS, TX_LOAD_MODEL,                                                        \
        TX_GROUPS_TRAINING | G(SAMPLE_FILES) | G(SAMPLING),                                                                  \
        "The script of that name: continues the lines of a file, samples into a file, or asks for prompts.")                 \
    JOB(TX_COMMAND_FILL_MASK, "fill-mask", fill_mask,                                                                        \
        TX_OUTPUT_IS_DATA | TX_COMPUTES | TX_ON_RANKS, TX_LOAD_MODEL,                                                        \
        G(FILL_MASK) | G(TOKENIZER) | G(GLOBAL),                                                                             \
        "Ask a BERT for the words where a text has [MASK].")                                                                 \
    JOB(TX_COMMAND_SERVE, "serve", serve,                                                                                    \
        TX_COMPUTES | TX_ON_RANKS | TX_TAKES_SIGNALS, TX_LOAD_MODEL,                                                         \
        G(SERVE) | G(TOKENIZER) | G(GLOBAL),                                                                                 \
        "Text from a checkpoint over HTTP: Megatron's /api, OpenAI's completions, a web page.")                              \
    JOB(TX_COMMAND_RUN_TEXT_GENERATION_SERVER, "run-text-generation-server", serve,                                          \
        TX_COMPUTES | TX_ON_RANKS | TX_TAKES_SIGNALS, TX_LOAD_MODEL,                                                         \
        TX_GROUPS_TRAINING | G(SERVE) | G(SAMPLING),                                                                         \
        "The script of that name: serve, with the flags of a training script.")                                              \
    JOB(TX_COMMAND_CONVERT, "convert", convert,                                                                              \
        TX_COMPUTES | TX_ALONE, TX_LOAD_NOTHING,                                                                             \
        G(CONVERT) | G(CONVERT_RANKS) | G(GLOBAL),                                                                           \
        "A checkpoint or model of one format to another.")                                                                   \
    JOB(TX_COMMAND_DEEPSPEED_TO_MEGATRON, "deepspeed-to-megatron", convert,                                                  \
        TX_COMPUTES | TX_ALONE, TX_LOAD_NOTHING,                                                                             \
        G(UPSTREAM_TOOL) | G(GLOBAL),                                                                                        \
        "The converter of that name: a DeepSpeed checkpoint to Megatron's, weights alone.")                                  \
    JOB(TX_COMMAND_DEEPSPEED_TO_TRANSFORMERS, "deepspeed-to-transformers", convert,                                          \
        TX_COMPUTES | TX_ALONE, TX_LOAD_NOTHING,                                                                             \
        G(UPSTREAM_TOOL) | G(GLOBAL),                                                                                        \
        "The converter of that name: a DeepSpeed checkpoint to a Hugging Face model.")                                       \
    JOB(TX_COMMAND_DS_TO_UNIVERSAL, "ds-to-universal", convert,                                                              \
        TX_COMPUTES | TX_ALONE, TX_LOAD_NOTHING,                                                                             \
        G(UPSTREAM_TOOL) | G(GLOBAL),                                                                                        \
        "DeepSpeed's script: a checkpoint as a universal one, which any layout of ranks loads.")                             \
    JOB(TX_COMMAND_INSPECT_CHECKPOINT, "inspect-checkpoint", inspect,                                                        \
        TX_OUTPUT_IS_DATA | TX_ALONE, TX_LOAD_MODEL,                                                                         \
        G(INSPECT) | G(TOKENIZER) | G(GLOBAL),                                                                               \
        "The script of that name: what a .pt file holds; also a folder, as inspect shows it.")                               \
    JOB(TX_COMMAND_INSPECT_DEEPSPEED_CHECKPOINT, "inspect-deepspeed-checkpoint", inspect,                                    \
        TX_OUTPUT_IS_DATA | TX_ALONE, TX_LOAD_MODEL,                                                                         \
        G(INSPECT_TOOL) | G(GLOBAL),                                                                                         \
        "The script of that name: inspect for a checkpoint's folder.")                                                       \
    JOB(TX_COMMAND_ZERO_TO_FP32, "zero-to-fp32", convert,                                                                    \
        TX_COMPUTES | TX_ALONE, TX_LOAD_NOTHING,                                                                             \
        G(ZERO_TO_FP32) | G(GLOBAL),                                                                                         \
        "DeepSpeed's script: a checkpoint's fp32 weights, here as a Hugging Face model.")                                    \
    JOB(TX_COMMAND_REPLAY, "replay", replay,                                                                                 \
        TX_COMPUTES | TX_ALONE, TX_LOAD_NOTHING,                                                                             \
        G(REPLAY) | G(GLOBAL),                                                                                               \
        "Run the iteration again at which numbers went bad and a run stopped.")                                              \
    JOB(TX_COMMAND_REPORT, "report", report,                                                                                 \
        TX_ALONE, TX_LOAD_NOTHING,                                                                                           \
        G(REPORT) | G(GLOBAL),                                                                                               \
        "Draw the curves of runs as one HTML page that needs no network.")                                                   \
    LAUNCHER(TX_COMMAND_TORCHRUN, "torchrun", torchrun,                                                                      \
        0, TX_LOAD_NOTHING,                                                                                                  \
        G(TORCHRUN) | G(LAUNCH),                                                                                             \
        "Start a command's ranks on this node, together with the torchruns of the other nodes; needs no ssh.")               \
    LAUNCHER(TX_COMMAND_DEEPSPEED, "deepspeed", deepspeed,                                                                   \
        0, TX_LOAD_NOTHING,                                                                                                  \
        G(DEEPSPEED_HOSTS) | G(LAUNCH),                                                                                      \
        "Start a command's ranks on this host, on the hosts of a hostfile, or in a Slurm allocation.")                       \
    JOB(TX_COMMAND_DOCTOR, "doctor", doctor,                                                                                 \
        TX_COMPUTES, TX_LOAD_NOTHING,                                                                                        \
        G(DOCTOR) | G(GLOBAL),                                                                                               \
        "What this machine has and what triax will use of it.")                                                              \
    PROGRAM(TX_COMMAND_ENGINE, "engine", none,                                                                               \
        TX_ON_RANKS, TX_LOAD_RESUMES,                                                                                        \
        TX_GROUPS_ENGINE,                                                                                                    \
        "What programs with a model of their own take, which train it with the library's engine.")
/* clang-format on */

#define TX_COMMAND_LIST(X) TX_COMMANDS(X, X, X)
TX_KIND(command_id, TX_COMMAND_LIST)

#endif
