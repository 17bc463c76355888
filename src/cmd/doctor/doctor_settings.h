/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_settings.h - what `fanin doctor` tells without sending anything: as JSON. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_SETTINGS_H
#define FAN_CMD_DOCTOR_DOCTOR_SETTINGS_H

#include <jansson.h>

/* Load the library that other programs load, look and let it go: the one of FANIN_LIBRARY, else
 * that of the wheel which this program lies in, else what the loader finds. */
json_t *doctor_library_json(void);

/* Open a socket as a rank does, and close it: what the kernel gives it. */
json_t *doctor_socket_json(void);

/* Print the line "settings": this build, the options of a rank as they are read here, and what
 * decides who sums its tensors. */
void doctor_print_settings(void);

#endif
