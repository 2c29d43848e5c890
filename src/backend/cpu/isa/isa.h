/* isa.h - for the files that are compiled once per instruction set: names with its suffix, and vectors of its width. */
#ifndef TX_BACKEND_CPU_ISA_ISA_H
#define TX_BACKEND_CPU_ISA_ISA_H

#include "backend/cpu/isa/kernels.h"

/* tx__k(add) is tx__add_avx512 in the avx512 build. */
#define TX__PASTE2(name, isa) tx__##name##_##isa
#define TX__PASTE(name, isa)  TX__PASTE2(name, isa)
#define tx__k(name)           TX__PASTE(name, TX_ISA)

#define K(result, name, args) result tx__k(name) args;
#include "backend/cpu/isa/kernels.def"
#undef K

/* For matrix kernels, where the sums have to stay in registers, loops leave too much to the compiler's choice: a vector
 * type of gcc and clang says what is meant. MR rows × 2 vectors of sums fit the registers of the set. */
#if defined(__AVX512F__)
enum { TX__VEC = 16, TX__MR = 8 };
#elif defined(__AVX2__)
enum { TX__VEC = 8, TX__MR = 4 };
#else
enum { TX__VEC = 4, TX__MR = 4 };
#endif
typedef float tx__vec __attribute__((vector_size(TX__VEC * 4), aligned(4), may_alias));

#endif
