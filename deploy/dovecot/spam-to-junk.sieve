require ["fileinto", "mailbox"];
if header :is "X-Postbayes" "spam" {
    fileinto :create "Junk";
    stop;
}
