#include "comm/comm.h"
