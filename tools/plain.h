/* Text from files shown on a terminal; a model's names may hold any bytes. */
#ifndef TOOLS_PLAIN_H_
#define TOOLS_PLAIN_H_

/* The text with everything visible that a terminal would obey: control characters (ESC, newline, DEL, and those from
 * U+0080 to U+009F), and characters that change the direction of writing or begin a line, become , \t or \u001b; bytes
 * that are no UTF-8 become \x9b. A text without any is returned itself; else the result lives as long as the process.
 */
const char *plain(const char *text);
/* As plain, for text of several lines: newlines and tabs stay. */
const char *plain_lines(const char *text);

#endif
