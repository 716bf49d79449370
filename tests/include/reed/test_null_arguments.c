/* Every function of the public headers, called with NULL in the place of each pointer. The calls are made by
 * null_arguments.py from the headers; the arguments that are no NULL are in null_fixture.h. */
#include "null_arguments.h"
