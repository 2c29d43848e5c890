/* isa_table.c - the finished table of one instruction set. */
#include "backend/cpu/isa/isa.h"

const tx__cpu_kernels TX__PASTE(cpu_kernels, TX_ISA) = {
#define K(result, name, args) .name = tx__k(name),
#include "backend/cpu/isa/kernels.def"
#undef K
};
