/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - what the program that makes frames is told. */
#ifndef FAN_LIVE_H
#define FAN_LIVE_H

#define LIVE_ETHERNET 14
#define LIVE_IP	      20
#define LIVE_UDP      8
#define LIVE_HEAD     36 /* of fanin */
#define LIVE_AT	      (LIVE_ETHERNET + LIVE_IP + LIVE_UDP)
#define LIVE_CHECKED  32 /* bytes of the header before its check */

#endif
