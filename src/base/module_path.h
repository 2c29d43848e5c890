/* module_path.h - finds the modules that are loaded at run time. */
#ifndef TX_BASE_MODULE_PATH_H
#define TX_BASE_MODULE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the file of that name: beside the program, beside the library that has this code, in a folder triax/ there,
 * relative to an installed program (../lib/triax), or at the configured install path; the first readable one. An
 * installation can therefore be moved. False: there is none. */
bool tx_module_path(char *out, size_t cap, const char *name);

#endif
