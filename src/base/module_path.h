/* module_path.h - where the modules are that are opened at run time. */
#ifndef TX_BASE_MODULE_PATH_H
#define TX_BASE_MODULE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The file of that name beside the program, beside the library that this code is in, in a folder triax/ there, where it
 * is of a program that was installed (../lib/triax), or where it was to be installed; the first that can be read. So an
 * installation may be moved. False: there is none. */
bool tx_module_path(char *out, size_t cap, const char *name);

#endif
