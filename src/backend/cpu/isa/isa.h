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
 * type of gcc and clang is explicit. MR rows × NV vectors of sums, a row of B and a number of A fit the
 * registers of the set; MR_REST rows are the rest of a block of 64. zip_low and zip_high of (a, b) are the
 * halves of a0 b0 a1 b1 ... */
#if defined(__AVX512F__)
enum { TX__VEC = 16, TX__MR = 6, TX__MR_REST = 4, TX__NV = 4 };
#define tx__zip_low(a, b)  __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define tx__zip_high(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined(__AVX2__)
enum { TX__VEC = 8, TX__MR = 6, TX__MR_REST = 4, TX__NV = 2 };
#define tx__zip_low(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define tx__zip_high(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
enum { TX__VEC = 4, TX__MR = 4, TX__MR_REST = 2, TX__NV = 2 };
#define tx__zip_low(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define tx__zip_high(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
typedef float tx__vec __attribute__((vector_size(TX__VEC * 4), aligned(4), may_alias));

#endif
