/* SPDX-License-Identifier: Apache-2.0 */
/* plug.c - the plane that the program has: this one, where it can be built. */
#include <stddef.h>

#include "net/plane.h"
#ifdef FAN_HAS_XDP
#include "xdp.h"

fan_plane_open *const fan_plane_plug = xdp_open;
#else
fan_plane_open *const fan_plane_plug = NULL;
#endif
