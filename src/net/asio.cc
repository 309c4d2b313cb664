// The code of Asio, its TLS, and Beast, compiled once for all sources of net/.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
