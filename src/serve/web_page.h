/* web_page.h - web_page.html, which GET / answers with; its NUL-terminated text is made part of the library by the
 * build. */
#ifndef TX_SERVE_WEB_PAGE_H
#define TX_SERVE_WEB_PAGE_H

extern const unsigned char tx__web_page_html[];

#endif
