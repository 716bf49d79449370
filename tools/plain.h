/* Text from files, shown on a terminal: a model's names may hold anything. */
#ifndef TOOLS_PLAIN_H_
#define TOOLS_PLAIN_H_

/* The text with everything in it that a terminal would obey made visible: control characters (ESC, newline, DEL, and
 * those from U+0080 to U+009F) and characters that turn the direction of writing or begin a line become \n, \t or
 * \u001b, bytes that are no UTF-8 become \x9b. Text without any is given back itself; else the result lives as long as
 * the process. */
const char *plain(const char *text);
/* The same for text of several lines: newlines and tabs stay. */
const char *plain_lines(const char *text);

#endif
