/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <string.h>

#define BLANKS	  " \t\r"
#define NS_DIGITS 9

static char *trimmed(char *s)
{
	s += strspn(s, BLANKS);
	size_t n = strlen(s);
	while (n && strchr(BLANKS, s[n - 1]))
		n--;
	s[n] = '\0';
	return s;
}

static void split(struct fan_csv *c, char *line)
{
	c->fields = 0;
	while (line && c->fields < FAN_CSV_FIELDS_MAX) {
		char *comma = strchr(line, ',');
		if (comma)
			*comma = '\0';
		c->field[c->fields++] = trimmed(line);
		line = comma ? comma + 1 : NULL;
	}
}

bool fan_csv_next(struct fan_csv *c)
{
	while (c->rest && *c->rest) {
		char *line = c->rest, *end = strchr(line, '\n');
		if (end)
			*end = '\0';
		c->rest = end ? end + 1 : NULL;
		c->line++;
		line = trimmed(line);
		if (*line == '\0' || *line == '#')
			continue;
		split(c, line);
		return true;
	}
	return false;
}

bool fan_csv_open(struct fan_csv *c, char *text, const char *head)
{
	*c = (struct fan_csv){.rest = text};
	if (!fan_csv_next(c))
		return false;
	for (unsigned i = 0; i < c->fields; i++) {
		size_t n = strlen(c->field[i]);
		if (strncmp(head, c->field[i], n) != 0)
			return false;
		head += n;
		if (*head == ',')
			head++;
		else if (i + 1 < c->fields)
			return false;
	}
	return *head == '\0';
}

bool fan_csv_number(const char *field, uint64_t most, uint64_t *n)
{
	*n = 0;
	if (!*field)
		return false;
	for (; *field; field++) {
		uint64_t digit = (uint64_t)(unsigned char)*field - '0';
		if (digit > 9 || *n > (most - digit) / 10)
			return false;
		*n = *n * 10 + digit;
	}
	return *n <= most;
}

bool fan_csv_seconds(const char *field, uint64_t *ns)
{
	const char *dot = strchr(field, '.');
	uint64_t whole = 0, part = 0;
	unsigned digits = 0;
	for (const char *p = field; *p && p != dot; p++, digits++) {
		if (*p < '0' || *p > '9' || digits == NS_DIGITS)
			return false;
		whole = whole * 10 + (uint64_t)(*p - '0');
	}
	if (digits == 0)
		return false;
	uint64_t unit = UINT64_C(1000000000);
	for (const char *p = dot ? dot + 1 : ""; *p; p++) {
		if (*p < '0' || *p > '9')
			return false;
		unit /= 10;
		part += unit * (uint64_t)(*p - '0');
	}
	*ns = whole * UINT64_C(1000000000) + part;
	return true;
}
