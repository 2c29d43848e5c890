/* web_page.h - web_page.html, the answer to GET /. The build makes its text, NUL-terminated, part of the library. */
#ifndef TX_SERVE_WEB_PAGE_H
#define TX_SERVE_WEB_PAGE_H

extern const unsigned char tx__web_page_html[];

#endif
