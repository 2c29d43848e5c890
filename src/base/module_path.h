/* module_path.h - finds the modules that are loaded at run time. */
#ifndef TX_BASE_MODULE_PATH_H
#define TX_BASE_MODULE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The first of these that can be read: the file of that name beside the program, beside the library that this code is
 * in, in a folder triax/ there, in ../lib/triax of an installed program, or in the folder that the build was configured
 * to install to. So an installation may be moved. False: there is none. */
bool tx_module_path(char *out, size_t cap, const char *name);

#endif
