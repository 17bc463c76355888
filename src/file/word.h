/* SPDX-License-Identifier: Apache-2.0 */
/* word.h - the word that somebody who misspelt one may have meant. */
#ifndef FAN_FILE_WORD_H
#define FAN_FILE_WORD_H

#define FAN_WORD_MAX 64 /* bytes; longer ones are like no other */

/* The word most like `word` in a list that ends with NULL: by the letters to put in, take out,
 * change, or swap with the next one.  NULL: none is like it. */
const char *fan_word_nearest(const char *word, const char *const *words);

#endif
