/* lora_targets.h - what low-rank adapters stand beside: the words of --lora-targets, and the matrices that they mean.
 *
 *  X(constant, field, name, A's shape, B's shape): a matrix, or a part of one that Hugging Face's models have as a
 * matrix of its own. `name` is the adapter's inside its layer, before ".lora_A.weight"; shapes are as in nn/param.h.
 *  W(word, targets): a word, and an or of the bits of what it means. A GPT-2 of Hugging Face's calls two matrices
 * c_proj, and PEFT means both by it. */
#ifndef TX_KINDS_LORA_TARGETS_H
#define TX_KINDS_LORA_TARGETS_H

/* clang-format off */
#define TX_LORA_TARGETS(X)                                                                   \
    X(TX_LORA_QKV,   "self_attention.query_key_value",   "r,h*",  "q/t,r")                   \
    X(TX_LORA_Q,     "self_attention.query_key_value.q", "r,h*",  "a/t,r")                   \
    X(TX_LORA_K,     "self_attention.query_key_value.k", "r,h*",  "k/t,r")                   \
    X(TX_LORA_V,     "self_attention.query_key_value.v", "r,h*",  "k/t,r")                   \
    X(TX_LORA_DENSE, "self_attention.dense",             "r,a/t", "h,r*")                    \
    X(TX_LORA_H_4H,  "mlp.dense_h_to_4h",                "r,h*",  "u/t,r")                   \
    X(TX_LORA_GATE,  "mlp.dense_h_to_4h.gate",           "r,h*",  "f/t,r")                   \
    X(TX_LORA_UP,    "mlp.dense_h_to_4h.up",             "r,h*",  "f/t,r")                   \
    X(TX_LORA_4H_H,  "mlp.dense_4h_to_h",                "r,f/t", "h,r*")

#define TX_LORA_CONSTANT(constant, ...) constant,
enum { TX_LORA_TARGETS(TX_LORA_CONSTANT) TX_N_LORA_TARGETS };

#define TX_LORA_BIT(target) (1u << (target))
#define TX_LORA_WORDS(W)                                                                     \
    W("query_key_value", TX_LORA_BIT(TX_LORA_QKV))                                           \
    W("dense",           TX_LORA_BIT(TX_LORA_DENSE))                                         \
    W("dense_h_to_4h",   TX_LORA_BIT(TX_LORA_H_4H))                                          \
    W("dense_4h_to_h",   TX_LORA_BIT(TX_LORA_4H_H))                                          \
    W("c_attn",          TX_LORA_BIT(TX_LORA_QKV))                                           \
    W("c_proj",          TX_LORA_BIT(TX_LORA_DENSE) | TX_LORA_BIT(TX_LORA_4H_H))             \
    W("c_fc",            TX_LORA_BIT(TX_LORA_H_4H))                                          \
    W("q_proj",          TX_LORA_BIT(TX_LORA_Q))                                             \
    W("k_proj",          TX_LORA_BIT(TX_LORA_K))                                             \
    W("v_proj",          TX_LORA_BIT(TX_LORA_V))                                             \
    W("o_proj",          TX_LORA_BIT(TX_LORA_DENSE))                                         \
    W("gate_proj",       TX_LORA_BIT(TX_LORA_GATE))                                          \
    W("up_proj",         TX_LORA_BIT(TX_LORA_UP))                                            \
    W("down_proj",       TX_LORA_BIT(TX_LORA_4H_H))
/* clang-format on */

#endif
